// What loading and consolidating hold in memory beside the state itself, measured by the kernel in processes of their own.
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/forked_ranks.h"
#include "checkpoint/small_run.h"
#include "tessera/checkpoint/consolidate.h"
#include "tessera/core/memory.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

constexpr int kNumRanks = 4;
constexpr std::int64_t kRows = 4096;
constexpr std::int64_t kColumns = 5120;
constexpr std::int64_t kModelBytes = kRows * kColumns * 4;

model::ParameterTable large_table() {
  model::ParameterTable table;
  table.num_units = 1;
  model::ParameterSpec spec;
  spec.name = "weight";
  spec.shape = {kRows, kColumns};
  spec.pieces = {test::whole("weight", {kRows, kColumns})};
  table.parameters.push_back(spec);
  return table;
}

/// A rank's part of a model and its optimizer: in fp32 three tensors of its rows.
struct LargeRun {
  explicit LargeRun(const model::Placement& placement = {}) : store(large_table(), options(placement)), optimizer(store, {}) {
    store.buffers().front().compute_shard.fill_(1.0);
    for (const optim::Moments& moments : optimizer.moments())
      for (const at::Tensor& moment : {moments.first, moments.second}) moment.fill_(2.0);
  }
  static model::ParameterStore::Options options(const model::Placement& placement) {
    model::ParameterStore::Options options = test::store_options(DType::F32);
    options.placement = placement;
    return options;
  }
  model::ParameterStore store;
  optim::Optimizer optimizer;
};

fs::path save_large(const fs::path& directory) {
  const test::SmallRun small;  // for everything but the tensors
  const LargeRun run;
  SaveRequest request = small.request(1);
  request.store = &run.store;
  request.optimizer = &run.optimizer;
  test::UnsyncedOperations operations;
  return CheckpointDirectory(operations, directory, {}, test::alone()).save(request);
}

/// By how much more than before this process has in memory at some time of `work`, when it is done for the second time: the first maps the program.
std::int64_t growth(const std::function<void()>& work) {
  work();
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const auto before = static_cast<std::int64_t>(test::resident_bytes());
  work();
  return static_cast<std::int64_t>(peak_resident_bytes()) - before;
}

TEST(MemoryTest, ALoadNeedsATenthMoreThanTheShare) {
  const test::TemporaryDirectory directory;
  const fs::path checkpoint = save_large(directory.path());
  const ModelSignature signature = test::SmallRun().signature();
  std::vector<std::unique_ptr<LargeRun>> runs;  // made before the fork: libtorch's threads do not outlive it
  for (int rank = 0; rank < kNumRanks; ++rank) runs.push_back(std::make_unique<LargeRun>(model::Placement{.num_shards = kNumRanks, .shard = rank}));
  const auto ends = test::run_forked(kNumRanks, [&](comm::Communicator& group) {
    LargeRun& run = *runs[static_cast<std::size_t>(group.rank())];
    return growth([&] { restore(checkpoint, signature, run.store, &run.optimizer, {}); });
  });
  for (const test::RankEnd& end : ends) {
    EXPECT_EQ(end.status, 0);
    EXPECT_LT(end.answer, 3 * kModelBytes / kNumRanks / 10);
  }
}

TEST(MemoryTest, ConsolidatingRanksHoldNoPartOfTheModel) {
  const test::TemporaryDirectory directory;
  const fs::path checkpoint = save_large(directory.path());
  const auto ends = test::run_forked(kNumRanks, [&](comm::Communicator& group) {
    test::UnsyncedOperations operations;
    int number = 0;
    return growth([&] { consolidate(operations, checkpoint, directory / ("out" + std::to_string(number++)), {.verify = Verify::Sizes}, group); });
  });
  for (const test::RankEnd& end : ends) {
    EXPECT_EQ(end.status, 0);
    EXPECT_LT(end.answer, std::int64_t{24} << 20);  // a chunk of rows, what is mapped of a shard, buffers
  }
}

}  // namespace
}  // namespace tessera::checkpoint
