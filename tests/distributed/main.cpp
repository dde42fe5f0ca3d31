// The main function of distributed_tests (ranks.h says how to use it).
//   --full           also the long tests, whose names begin with LONG_
//   --report FOLDER  each rank writes its output to FOLDER/rank.<R>.txt and GoogleTest's report to FOLDER/rank.<R>.json
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>

#include "distributed/ranks.h"
#include "tessera/core/error.h"

namespace tessera::test {
namespace {

std::unique_ptr<comm::MpiBackend>& the_backend() {
  static std::unique_ptr<comm::MpiBackend> instance;
  return instance;
}

std::map<std::string, std::vector<int>>& required_sizes() {
  static std::map<std::string, std::vector<int>> sizes;
  return sizes;
}

/// Leaves out the long tests and those of other numbers of ranks.
std::string filter_for(const std::string& filter, int size, bool full) {
  std::string without = full ? "" : "*.LONG_*";
  for (const auto& [test, sizes] : required_sizes())
    if (std::ranges::count(sizes, size) == 0) without += fmt::format(":{0}:*/{0}/*", test);
  return filter + (filter.find('-') == std::string::npos ? "-" : ":") + without;
}

/// Ranks go into a test together and, when it has failed at one of them, stop together: their operations no longer belong together.
class Together : public testing::EmptyTestEventListener {
 public:
  Together() : world_(world_communicator()) {}
  void OnTestStart(const testing::TestInfo&) override { world_->barrier(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    const at::Tensor failed = at::full({1}, test.result()->Failed() ? 1 : 0, at::kInt);
    try {
      world_->all_reduce(failed, comm::ReduceOperation::Max).wait();
      if (failed.item<int>() == 0) return;
    } catch (const Failure& failure) {
      fmt::print("{}\n", failure.what());
    }
    // As GoogleTest would have said: scripts/run_tests.py looks for it.
    fmt::print("[  FAILED  ] {}.{}, at {} (0 ms)\n", test.test_suite_name(), test.name(), test.result()->Failed() ? "this rank" : "another rank");
    std::fflush(stdout);
    std::_Exit(1);
  }

 private:
  std::unique_ptr<comm::Communicator> world_;
};

bool take_flag(std::vector<std::string>& arguments, const std::string& name) { return std::erase(arguments, name) > 0; }

std::optional<std::string> take_value(std::vector<std::string>& arguments, const std::string& name) {
  const auto at = std::ranges::find(arguments, name);
  if (at == arguments.end() || at + 1 == arguments.end()) return std::nullopt;
  const std::string value = *(at + 1);
  arguments.erase(at, at + 2);
  return value;
}

void report_into(const std::string& folder, std::vector<std::string>& arguments) {
  const std::string stem = fmt::format("{}/rank.{}", folder, backend().rank());
  if (std::freopen((stem + ".txt").c_str(), "w", stdout) == nullptr) std::abort();
  ::setvbuf(stdout, nullptr, _IOLBF, 0);
  arguments.push_back("--gtest_output=json:" + stem + ".json");
}

void initialise_gtest(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  testing::InitGoogleMock(&count, pointers.data());
}

int run(std::vector<std::string> arguments) {
  if (!comm::started_by_mpi()) {
    fmt::print(stderr, "error: start this program under mpirun (tests/distributed/ranks.h)\n");
    return 2;
  }
  // Messages are cut far below what they would be, so that the tests see several per transfer.
  the_backend() = std::make_unique<comm::MpiBackend>(comm::MpiOptions{.timeout_seconds = 20, .largest_message = 100000});
  at::set_num_threads(1);
  const at::AutoDispatchBelowADInplaceOrView without_autograd;  // as in the program (cli/cli.cpp)
  const bool full = take_flag(arguments, "--full");
  if (const auto folder = take_value(arguments, "--report")) report_into(*folder, arguments);
  initialise_gtest(std::move(arguments));
  testing::GTEST_FLAG(filter) = filter_for(testing::GTEST_FLAG(filter), static_cast<int>(backend().world_size()), full);
  auto* together = new Together;
  testing::UnitTest::GetInstance()->listeners().Append(together);
  const int status = RUN_ALL_TESTS();
  delete testing::UnitTest::GetInstance()->listeners().Release(together);
  the_backend().reset();
  return status;
}

}  // namespace

comm::MpiBackend& backend() { return *the_backend(); }

std::unique_ptr<comm::Communicator> world_communicator() {
  std::vector<std::int64_t> everyone(static_cast<std::size_t>(backend().world_size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  return backend().communicator(everyone, "world");
}

bool runs_only_with(const std::string& test, std::vector<int> sizes) {
  required_sizes()[test] = std::move(sizes);
  return true;
}

}  // namespace tessera::test

int main(int count, char** arguments) { return tessera::test::run({arguments, arguments + count}); }
