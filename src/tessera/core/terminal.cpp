#include "tessera/core/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tessera/core/text.h"

namespace tessera {
namespace {

constexpr int kWidth = 24;

std::string bar(double share) {
  const int full = std::clamp(static_cast<int>(share * kWidth), 0, kWidth);
  std::string text;
  for (int i = 0; i < kWidth; ++i) text += i < full ? "━" : "─";
  return text;
}

}  // namespace

bool stderr_is_terminal() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && kind != nullptr && std::strcmp(kind, "dumb") != 0;
}

std::string highlight_error(const std::string& line) {
  const std::size_t length = line.starts_with("error:") ? 6 : line.starts_with("internal error:") ? 15 : 0;
  if (length == 0 || !stderr_is_terminal()) return line;
  return "\033[31m" + line.substr(0, length) + "\033[0m" + line.substr(length);
}

ProgressBar::ProgressBar(std::string label, std::uint64_t total, Unit unit)
    : label_(std::move(label)),
      total_(std::max<std::uint64_t>(total, 1)),
      unit_(unit),
      visible_(stderr_is_terminal()),
      start_(Clock::now()),
      last_draw_(start_) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::update(std::uint64_t done, const std::string& suffix) {
  done_ = std::min(done, total_);
  suffix_ = suffix;
  if (visible_ && (seconds_since(last_draw_) > 0.1 || done_ == total_)) draw();
}

void ProgressBar::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
  std::fflush(stderr);
}

void ProgressBar::draw() {
  last_draw_ = Clock::now();
  drawn_ = true;
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const double elapsed = seconds_since(start_);
  const std::string left = share > 0.01 ? human_duration(elapsed * (1.0 - share) / share) + " left" : "";
  const auto amount = [&](std::uint64_t value) { return unit_ == Unit::Bytes ? human_bytes(double(value)) : fmt::format("{}", value); };
  fmt::print(stderr, "\r\033[K{} \033[36m{}\033[0m {:3.0f} %  {}/{}  {}  {}", label_, bar(share), 100 * share, amount(done_), amount(total_), left,
             suffix_);
  std::fflush(stderr);
}

}  // namespace tessera
