#pragma once

#include <cstdint>
#include <string>

#include "tessera/core/clock.h"

namespace tessera {

/// Whether standard error is a terminal that shows colours and redraws.
bool stderr_is_terminal();
/// A line for standard error: on a terminal, "error:" or "internal error:" at its beginning is red.
std::string highlight_error(const std::string& line);

/// A one-line progress bar on standard error: "label ━━━━━━━━── 62 %  1.2/2.0 GiB  3.1 s left". On a terminal it redraws at most ten times a second;
/// elsewhere it prints nothing, so that logs stay clean. The destructor clears the line.
class ProgressBar {
 public:
  enum class Unit { Count, Bytes };
  ProgressBar(std::string label, std::uint64_t total, Unit unit = Unit::Count);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// Sets how much of the total is done; `suffix` is shown at the end (e.g. the loss).
  void update(std::uint64_t done, const std::string& suffix = "");
  void advance(std::uint64_t amount) { update(done_ + amount, suffix_); }
  /// Wipes the line so that a log line can be printed; the next update draws it again.
  void clear();

 private:
  void draw();

  std::string label_;
  std::string suffix_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  Unit unit_;
  bool visible_;
  bool drawn_ = false;
  Clock::time_point start_;
  Clock::time_point last_draw_;
};

}  // namespace tessera
