// A checkpoint of any layout goes on at any other, of whatever number of ranks: same samples, same losses, same weights.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

#include "distributed/expert_models.h"
#include "distributed/ranks.h"
#include "support/support.h"
#include "tessera/checkpoint/compare.h"
#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/checkpoint/verify.h"
#include "tessera/comm/values.h"
#include "tessera/core/json.h"
#include "tessera/train/run.h"
#include "train/small_recipe.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

constexpr int kSavedStep = 6;
constexpr int kLastStep = 11;  // in the next epoch; the eighth step is a short one
constexpr std::uint64_t kSeed = 20261;

struct Layout {
  std::string name;
  int num_ranks = 1;
  std::vector<std::string> overrides = {};
};

/// Those that so many ranks can hold.
std::vector<Layout> layouts(int num_ranks) {
  const auto zero = [](int stage) {
    return Layout{
        fmt::format("zero-{} 4", stage), 4, {"--distributed.strategy=megatron_fsdp", fmt::format("--distributed.zero_dp_strategy={}", stage)}};
  };
  const auto fsdp2 = [](int ranks) { return Layout{fmt::format("fsdp2 {}", ranks), ranks, {"--distributed.strategy=fsdp2"}}; };
  const auto pp = [](int ranks, int stages, const std::string& schedule, std::vector<std::string> more = {}) {
    more.push_back(fmt::format("--distributed.pp_size={}", stages));
    more.push_back("--distributed.pipeline.pp_schedule=" + schedule);
    return Layout{fmt::format("pp {} {} of {}", stages, schedule, ranks), ranks, std::move(more)};
  };
  std::vector<Layout> all{{"one", 1},
                          {"ddp 2", 2, {"--distributed.strategy=ddp"}},
                          fsdp2(2),
                          fsdp2(3),
                          fsdp2(4),
                          {"hybrid 2x2", 4, {"--distributed.strategy=fsdp2", "--distributed.dp_replicate_size=2"}},
                          zero(1),
                          zero(2),
                          zero(3),
                          fsdp2(8),
                          {"tp 2", 2, {"--distributed.tp_size=2"}},
                          {"cp 2", 2, {"--distributed.cp_size=2"}},
                          {"tp 4 sequence", 4, {"--distributed.tp_size=4", "--distributed.sequence_parallel=true"}},
                          {"tp 2 dp 2", 4, {"--distributed.tp_size=2"}},
                          {"tp 2 cp 2", 4, {"--distributed.tp_size=2", "--distributed.cp_size=2", "--distributed.sequence_parallel=true"}},
                          pp(2, 2, "zero_bubble"),
                          pp(4, 4, "1f1b"),
                          pp(4, 2, "v_schedule", {"--distributed.tp_size=2"})};
  std::erase_if(all, [&](const Layout& layout) { return layout.num_ranks > num_ranks; });
  return all;
}

/// The same for experts, by so many ranks of which so many hold different ones.
std::vector<Layout> expert_layouts(int num_ranks) {
  const auto ep = [](int ranks, int ep_size, const std::string& name = "", std::vector<std::string> more = {}) {
    more.push_back(fmt::format("--distributed.ep_size={}", ep_size));
    return Layout{fmt::format("ep {}{} of {}", ep_size, name, ranks), ranks, std::move(more)};
  };
  std::vector<Layout> all{{"one", 1},
                          {"fsdp2 3", 3},
                          ep(2, 2),
                          ep(4, 2),
                          ep(4, 4, " resharded", {"--distributed.moe.reshard_after_forward=true"}),
                          ep(4, 2, " hybrid", {"--distributed.dp_replicate_size=2"}),
                          ep(4, 2, " tp 2", {"--distributed.tp_size=2"}),
                          ep(4, 2, " cp 2", {"--distributed.cp_size=2"}),
                          ep(4, 2, " pp 2", {"--distributed.pp_size=2", "--distributed.pipeline.pp_schedule=zero_bubble"}),
                          ep(8, 8),
                          ep(8, 4, " tp 2", {"--distributed.tp_size=2"})};
  std::erase_if(all, [&](const Layout& layout) { return layout.num_ranks > num_ranks; });
  return all;
}

/// The first ranks of the run, as if there were no others.
class FirstRanks : public comm::Backend {
 public:
  explicit FirstRanks(int num_ranks) : num_ranks_(num_ranks) {}
  std::int64_t rank() const override { return tessera::test::backend().rank(); }
  std::int64_t world_size() const override { return num_ranks_; }
  std::int64_t local_rank() const override { return rank(); }
  std::int64_t local_size() const override { return num_ranks_; }
  std::unique_ptr<comm::Communicator> communicator(const std::vector<std::int64_t>& members, const std::string& name) override {
    return tessera::test::backend().communicator(members, name);
  }
  [[noreturn]] void abort(int) override { std::abort(); }

 private:
  int num_ranks_;
};

/// Where runs are compared: of the small recipe's model, cut into four layers, or of another.
struct Stage {
  /// Ranks that take no part in a run wait until it ends.
  explicit Stage(std::vector<std::string> model = {"--model.config.n_layer=4"}) : model_overrides(std::move(model)) {
    tessera::test::backend().set_timeout(300);
  }
  ~Stage() { tessera::test::backend().set_timeout(20); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  std::vector<std::string> model_overrides;
  tessera::test::TemporaryDirectory own;
  std::unique_ptr<comm::Communicator> world = tessera::test::world_communicator();
  fs::path root = comm::gather(*world, own.path().string()).front();  ///< one that all ranks see

  /// Trains up to a step, going on from the checkpoint that is there.
  void train_to(int step, const Layout& layout, const fs::path& directory) const {
    std::vector<std::string> overrides{"--step_scheduler.global_batch_size=24",
                                       "--step_scheduler.local_batch_size=1",
                                       "--dataset.num_sentences=180",
                                       fmt::format("--step_scheduler.max_steps={}", step),
                                       "--optimizer.eps=1e-6",
                                       "--lr_scheduler.wd_incr_steps=22"};
    overrides.insert(overrides.end(), model_overrides.begin(), model_overrides.end());
    overrides.insert(overrides.end(), layout.overrides.begin(), layout.overrides.end());
    if (world->rank() == 0) test::load_small_recipe(directory);
    world->barrier();
    FirstRanks ranks(layout.num_ranks);
    if (world->rank() < layout.num_ranks)
      train(config::load_recipe(directory / "recipe.yaml", overrides, test::no_variables), test::no_variables, ranks);
    world->barrier();
  }
  void copy(const fs::path& from, const fs::path& to) const {
    if (world->rank() == 0) fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    world->barrier();
  }
};

fs::path last_checkpoint(const fs::path& directory) { return directory / "checkpoints" / fmt::format("epoch_1_step_{}", kLastStep); }

void expect_same_course(const fs::path& directory, const fs::path& expected_directory, bool bitwise) {
  const std::vector<Json> lines = test::json_lines(directory / "logs/training.jsonl");
  const std::vector<Json> expected = test::json_lines(expected_directory / "logs/training.jsonl");
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(kLastStep));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("num_label_tokens"), expected[i].at("num_label_tokens")) << "other samples";
    for (const auto& [key, tolerance] : {std::pair("loss", 1e-5), std::pair("grad_norm", 1e-4)}) {
      const double value = expected[i].at(key).get<double>();
      EXPECT_NEAR(lines[i].at(key).get<double>(), value, bitwise ? 0.0 : tolerance * value) << key << " of step " << i + 1;
    }
  }
}

/// Weights and moments after the last step: the same bits, or the same to fp32 rounding of the tensor's largest value.
void expect_same_state(const fs::path& directory, const fs::path& expected_directory, bool bitwise) {
  const checkpoint::Differences differences = checkpoint::compare(last_checkpoint(expected_directory), last_checkpoint(directory));
  EXPECT_GT(differences.num_tensors, 50u);
  EXPECT_TRUE(differences.structure.empty());
  EXPECT_TRUE(differences.same() || !bitwise);
  for (const checkpoint::ValueDifference& tensor : differences.values) {
    if (tensor.name.starts_with("exp_avg")) continue;  // near zero they are noise: the weights tell
    EXPECT_LE(tensor.largest, 1e-5 * tensor.largest_value) << tensor.name;
  }
}

/// Continues at `to` what was saved at `from`; both have run uninterrupted before.
void expect_goes_on(const Stage& stage, const Layout& from, const Layout& to) {
  SCOPED_TRACE(from.name + " -> " + to.name);
  const fs::path directory = stage.root / (from.name + " to " + to.name);
  stage.copy(stage.root / (from.name + " saved"), directory);
  stage.train_to(kLastStep, to, directory);
  const bool bitwise = from.name == to.name;
  const fs::path expected = stage.root / (bitwise ? to.name : "one");
  expect_same_course(directory, expected, bitwise);
  expect_same_state(directory, expected, bitwise);
  stage.world->barrier();
  if (stage.world->rank() == 0) fs::remove_all(directory);
}

/// At so many pairs of layouts, chosen by the seed.
void expect_pairs_go_on(const Stage& stage, const std::vector<Layout>& all, std::size_t num_pairs) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t from = 0; from < all.size(); ++from)
    for (std::size_t to = 0; to < all.size(); ++to) pairs.emplace_back(from, to);
  if (num_pairs < pairs.size()) {
    std::ranges::shuffle(pairs, std::mt19937_64(kSeed));
    pairs.resize(num_pairs);
    std::ranges::sort(pairs);
  }
  stage.train_to(kLastStep, all.front(), stage.root / "one");
  std::map<std::string, bool> saved;
  for (const auto& [from, to] : pairs) {
    if (from == to && from > 0) stage.train_to(kLastStep, all[from], stage.root / all[from].name);
    if (!std::exchange(saved[all[from].name], true)) stage.train_to(kSavedStep, all[from], stage.root / (all[from].name + " saved"));
    expect_goes_on(stage, all[from], all[to]);
  }
  if (stage.world->rank() == 0) fmt::print("{} pairs of layouts over up to {} ranks\n", pairs.size(), stage.world->size());
}

/// Saves in the background every second step, beside training's own communication, and in the foreground.
RANKS_TEST(AsyncSave, SavesBesideTrainingWhatItWouldHaveSavedAlone, 2, 4) {
  const Stage stage;
  Layout layout{
      "waits", stage.world->size(), {"--distributed.strategy=fsdp2", "--step_scheduler.ckpt_every_steps=2", "--checkpoint.save_consolidated=true"}};
  stage.train_to(kLastStep, layout, stage.root / layout.name);
  layout.overrides.emplace_back("--checkpoint.is_async=true");
  stage.train_to(kLastStep, layout, stage.root / "goes on");
  expect_same_course(stage.root / "goes on", stage.root / "waits", true);
  const auto saved = checkpoint::list_checkpoints(stage.root / "waits/checkpoints");
  EXPECT_EQ(saved.size(), static_cast<std::size_t>(kLastStep / 2 + 1));
  for (const checkpoint::CheckpointEntry& entry : saved) {
    const fs::path other = stage.root / "goes on/checkpoints" / entry.path.filename();
    EXPECT_TRUE(checkpoint::compare(entry.path, other).same()) << other;
    EXPECT_TRUE(verify_files(other, checkpoint::read_manifest(other), checkpoint::Verify::Full).empty()) << other;
  }
  stage.world->barrier();
}

/// One run, whose every part is laid out in another way.
RANKS_TEST(Reshard, FromPipelineToOneProcess, 8) {
  const Stage stage;
  const std::vector<std::string> pp4{"--distributed.pp_size=4", "--distributed.pipeline={}"};
  const std::vector<std::string> pp2{"--distributed.pp_size=2", "--distributed.tp_size=2", "--distributed.pipeline.pp_schedule=v_schedule"};
  const fs::path directory = stage.root / "all in turn", one = stage.root / "one";
  stage.train_to(3, {"pp 4", 8, pp4}, directory);
  stage.train_to(6, {"pp 2 tp 2", 8, pp2}, directory);
  stage.train_to(9, {"fsdp2", 8}, directory);
  stage.train_to(kLastStep, {"one", 1}, directory);
  stage.train_to(kLastStep, {"one", 1}, one);
  expect_same_course(directory, one, false);
  expect_same_state(directory, one, false);
  stage.world->barrier();
}

constexpr std::size_t kAll = 1000;
void expect_dense_pairs_go_on(std::size_t num_pairs) {
  const Stage stage;
  expect_pairs_go_on(stage, layouts(stage.world->size()), num_pairs);
}
void expect_expert_pairs_go_on(std::size_t num_pairs) {
  Json config = tessera::test::small_expert_model("deepseek_v3", 3);
  config["vocab_size"] = 80;
  const Stage stage({"--model.config=" + config.dump()});
  expect_pairs_go_on(stage, expert_layouts(stage.world->size()), num_pairs);
}
RANKS_TEST(Reshard, SomePairsOfLayouts, 4, 8) { expect_dense_pairs_go_on(tessera::test::backend().world_size() == 8 ? 2 : 3); }
RANKS_TEST(Reshard, LONG_EveryPairOfLayouts, 8) { expect_dense_pairs_go_on(kAll); }
RANKS_TEST(Reshard, SomePairsOfLayoutsOfExperts, 4) { expect_expert_pairs_go_on(3); }
RANKS_TEST(Reshard, LONG_EveryPairOfLayoutsOfExperts, 8) { expect_expert_pairs_go_on(kAll); }

}  // namespace
}  // namespace tessera::train
