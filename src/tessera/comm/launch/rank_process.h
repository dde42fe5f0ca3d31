#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "tessera/comm/launch/rank_environment.h"

namespace tessera::launch {

/// This process as one of several ranks, or alone: what it prints, and its line to the launcher (launcher.h) where one started it.
///
/// Rank 0 prints as a single process does. Other ranks print nothing on standard output and no notes; their errors begin with "[rank 3] ".
/// A rank that a launcher started writes straight to the launcher's standard output and error, and is killed the moment the launcher is gone.
class RankProcess {
 public:
  /// Finds out what this process is. UserError when it was started in a way that cannot work. `by_torchrun`: torchrun's variables say it.
  explicit RankProcess(const Environment& environment, bool by_torchrun = false);
  /// A process of its own.
  RankProcess();
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  /// Nothing when this process was started alone.
  const std::optional<RankEnvironment>& environment() const { return environment_; }
  /// Sends this rank's log lines and errors, and what else it prints on standard error, to DIR/rank_3.log too (rank 0: too; others: errors excepted,
  /// only there). Makes the directory.
  void log_to(const std::filesystem::path& directory);
  /// Prints an error of several lines, with the rank's prefix; where there is a launcher, it prints what all ranks say. `status` is what the
  /// process will exit with: the launcher may end it before it can.
  void error(std::string_view text, int status);
  /// The last word: the status that the process will exit with. A rank that ends without it counts as dead.
  void goodbye(int status);

 private:
  class Link;
  bool is_one_of_several() const { return environment_ && environment_->world_size > 1; }

  std::optional<RankEnvironment> environment_;
  std::unique_ptr<Link> link_;
  int error_output_;  ///< where errors go: standard error as it was at the start
  int log_file_ = -1;
};

}  // namespace tessera::launch
