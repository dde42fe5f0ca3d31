// A checkpoint of any layout goes on at any other: same samples, same losses, same weights.
#include <fmt/format.h>

#include <cmath>

#include "distributed/ranks.h"
#include "support/support.h"
#include "tessera/comm/values.h"
#include "tessera/core/json.h"
#include "tessera/train/run.h"
#include "train/small_recipe.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

struct Layout {
  std::string name;
  std::vector<std::string> overrides;
  bool one_process = false;  ///< rank 0 alone
};

std::vector<Layout> layouts(std::int64_t ranks) {
  std::vector<Layout> all{{"one process", {}, true},
                          {"ddp", {"--distributed.strategy=ddp"}},
                          {"fsdp2", {"--distributed.strategy=fsdp2"}},
                          {"zero-1", {"--distributed.strategy=megatron_fsdp", "--distributed.zero_dp_strategy=1"}},
                          {"zero-2", {"--distributed.strategy=megatron_fsdp", "--distributed.zero_dp_strategy=2"}},
                          {"zero-3", {"--distributed.strategy=megatron_fsdp", "--distributed.zero_dp_strategy=3"}}};
  if (ranks == 2) all.push_back({"tp 2", {"--distributed.tp_size=2"}});
  if (ranks == 2) all.push_back({"cp 2", {"--distributed.cp_size=2"}});
  if (ranks == 4) all.push_back({"tp 4 sequence", {"--distributed.tp_size=4", "--distributed.sequence_parallel=true"}});
  if (ranks == 4) all.push_back({"tp 2 dp 2", {"--distributed.tp_size=2"}});
  if (ranks == 4) all.push_back({"tp 2 cp 2", {"--distributed.tp_size=2", "--distributed.cp_size=2", "--distributed.sequence_parallel=true"}});
  if (ranks == 4) all.push_back({"hybrid", {"--distributed.strategy=fsdp2", "--distributed.dp_replicate_size=2"}});
  return all;
}

/// Trains to `max_steps`, going on from the checkpoint that is there, and returns what every step reported.
std::vector<Json> train_on(const Layout& layout, const fs::path& directory, int max_steps) {
  std::vector<std::string> overrides{"--step_scheduler.global_batch_size=12", "--step_scheduler.local_batch_size=1",
                                     fmt::format("--step_scheduler.max_steps={}", max_steps), "--optimizer.eps=1e-6"};
  if (fs::exists(directory / "checkpoints")) overrides.emplace_back("--checkpoint.restore_from=LATEST");
  overrides.insert(overrides.end(), layout.overrides.begin(), layout.overrides.end());
  const auto self = comm::self_backend();
  const auto world = tessera::test::world_communicator();
  if (world->rank() == 0) test::load_small_recipe(directory);
  world->barrier();
  if (!layout.one_process || world->rank() == 0)
    train(config::load_recipe(directory / "recipe.yaml", overrides, test::no_variables), test::no_variables,
          layout.one_process ? *self : tessera::test::backend());
  world->barrier();
  return test::json_lines(directory / "logs/training.jsonl");
}

/// A directory that all ranks see.
fs::path shared_directory(const tessera::test::TemporaryDirectory& own) {
  return comm::gather(*tessera::test::world_communicator(), own.path().string()).front();
}

void expect_same_course(const std::vector<Json>& lines, const std::vector<Json>& expected) {
  ASSERT_EQ(lines.size(), expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("num_label_tokens"), expected[i].at("num_label_tokens")) << "other samples";
    EXPECT_NEAR(lines[i].at("loss").get<double>(), expected[i].at("loss").get<double>(), 1e-5 * expected[i].at("loss").get<double>());
    EXPECT_NEAR(lines[i].at("grad_norm").get<double>(), expected[i].at("grad_norm").get<double>(), 1e-4 * expected[i].at("grad_norm").get<double>());
  }
}

/// Saves at each layout after three steps and goes on at `targets` others, into the next epoch, whose last step is a short one.
void expect_any_goes_on_as_any(std::size_t targets) {
  const tessera::test::TemporaryDirectory own;
  const fs::path root = shared_directory(own);
  const auto world = tessera::test::world_communicator();
  const std::vector<Layout> all = layouts(world->size());
  const std::vector<Json> expected = train_on(all.front(), root / "whole", 8);
  for (std::size_t from = 0; from < all.size(); ++from) {
    const fs::path saved = root / all[from].name;
    train_on(all[from], saved, 3);
    for (std::size_t i = 0; i < targets; ++i) {
      const Layout& to = all[(from + i) % all.size()];
      SCOPED_TRACE(all[from].name + " -> " + to.name);
      const fs::path directory = root / (all[from].name + " to " + to.name);
      if (world->rank() == 0) fs::copy(saved, directory, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
      world->barrier();
      expect_same_course(train_on(to, directory, 8), expected);
    }
  }
  if (world->rank() == 0) fmt::print("{} pairs of layouts over {} ranks\n", all.size() * targets, world->size());
}

RANKS_TEST(Reshard, SomePairsOfLayouts, 2, 3, 4) { expect_any_goes_on_as_any(2); }
RANKS_TEST(Reshard, LONG_AllPairsOfLayouts, 2, 3, 4) { expect_any_goes_on_as_any(layouts(tessera::test::backend().world_size()).size()); }

}  // namespace
}  // namespace tessera::train
