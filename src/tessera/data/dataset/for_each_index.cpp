#include "tessera/data/dataset/for_each_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/terminal.h"

namespace tessera::data {
namespace {

constexpr std::int64_t kBlock = 64;
constexpr std::size_t kMaxProblems = 10;
constexpr auto kQuietTime = std::chrono::seconds(2);

class Work {
 public:
  Work(std::int64_t count, std::string label, const std::function<void(std::int64_t)>& action)
      : count_(count), label_(std::move(label)), action_(action), start_(std::chrono::steady_clock::now()) {}

  void run_blocks() {
    for (std::int64_t begin = next_.fetch_add(kBlock); begin < count_ && !fatal_; begin = next_.fetch_add(kBlock)) {
      const std::int64_t end = std::min(count_, begin + kBlock);
      for (std::int64_t index = begin; index < end; ++index) run(index);
      show_progress(end - begin);
    }
  }

  void throw_if_failed() const {
    if (fatal_) std::rethrow_exception(exception_);
    ProblemList problems;
    std::size_t shown = 0;
    for (const auto& [index, error] : errors_) {
      if (shown++ < kMaxProblems) problems.add(error);
    }
    if (errors_.size() > kMaxProblems) problems.add({"", fmt::format("{} more like these", errors_.size() - kMaxProblems), "", ""});
    problems.throw_if_any();
  }

 private:
  void run(std::int64_t index) {
    try {
      action_(index);
    } catch (const UserError& error) {
      const std::lock_guard lock(mutex_);
      errors_.emplace(index, error);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!fatal_) exception_ = std::current_exception();
      fatal_ = true;
    }
  }

  void show_progress(std::int64_t more) {
    const std::lock_guard lock(mutex_);
    done_ += more;
    if (!bar_ && std::chrono::steady_clock::now() - start_ > kQuietTime)
      bar_ = std::make_unique<ProgressBar>(label_, static_cast<std::uint64_t>(count_));
    if (bar_) bar_->update(static_cast<std::uint64_t>(done_));
  }

  std::int64_t count_;
  std::string label_;
  const std::function<void(std::int64_t)>& action_;
  std::chrono::steady_clock::time_point start_;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<bool> fatal_ = false;
  std::mutex mutex_;
  std::int64_t done_ = 0;
  std::map<std::int64_t, UserError> errors_;
  std::exception_ptr exception_;
  std::unique_ptr<ProgressBar> bar_;
};

}  // namespace

void for_each_index(std::int64_t count, int num_threads, const std::string& label, const std::function<void(std::int64_t)>& action) {
  Work work(count, label, action);
  {
    std::vector<std::jthread> helpers;
    for (int thread = 1; thread < num_threads; ++thread) helpers.emplace_back([&work] { work.run_blocks(); });
    work.run_blocks();
  }
  work.throw_if_failed();
}

}  // namespace tessera::data
