#include "tessera/train/memory_plan.h"

#include <gtest/gtest.h>

#include "support/allocation_counter.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/train/examine.h"
#include "tessera/train/objects.h"
#include "train/one_process.h"
#include "train/small_recipe.h"

namespace tessera::train::test {
namespace {

model::MemoryEstimate plan_of(const config::LoadedRecipe& loaded, std::int64_t num_ranks) {
  const Examination examination = examine(loaded, no_variables, num_ranks);
  return memory_plan(loaded.recipe, examination.plan->spec, examination.plan->dtype, examination.mesh.value(), 1, 16).front();
}

/// What a save in the background allocates in the thread that trains.
std::int64_t allocated_by_saving(const config::LoadedRecipe& loaded, const std::filesystem::path& directory) {
  const TrainingObjects objects = build_objects(loaded, no_variables, tessera::test::one_process_backend());
  const auto operations = posix_file_operations();
  checkpoint::SaveRequest request;
  request.store = objects.model.model.store.get();
  request.optimizer = objects.optimizer.get();
  request.signature = objects.signature;
  request.model_files = &objects.model_files;
  checkpoint::CheckpointDirectory saver(*operations, directory, {}, objects.setup.world());
  const tessera::test::AllocationCounter counter;
  saver.begin_save(request);
  saver.finish_save();
  return counter.current();
}

TEST(MemoryPlan, CountsTheCopyThatASaveInTheBackgroundMakes) {
  for (const std::string dtype : {"float32", "bfloat16"}) {
    const tessera::test::TemporaryDirectory directory;
    const auto load = [&](const std::string& change) { return load_small_recipe(directory.path(), {"--model.torch_dtype=" + dtype, change}); };
    const config::LoadedRecipe in_background = load("--checkpoint.is_async=true");
    const model::MemoryEstimate plan = plan_of(in_background, 1);
    const std::int64_t measured = allocated_by_saving(in_background, directory / "saved");
    // Each tensor begins at a multiple of 64 bytes.
    EXPECT_GE(measured, plan.staging) << dtype;
    EXPECT_LT(static_cast<double>(measured), 1.01 * static_cast<double>(plan.staging)) << dtype;
    EXPECT_EQ(plan.total() - plan.staging, plan_of(load("--checkpoint.is_async=false"), 1).total());
  }
}

TEST(MemoryPlan, RanksThatHoldTheSameShareTheCopy) {
  const tessera::test::TemporaryDirectory directory;
  const auto staging = [&](const std::vector<std::string>& changes, std::int64_t num_ranks) {
    std::vector<std::string> all{"--checkpoint.is_async=true", "--step_scheduler.local_batch_size=1"};
    all.insert(all.end(), changes.begin(), changes.end());
    return plan_of(load_small_recipe(directory.path(), all), num_ranks).staging;
  };
  const std::int64_t alone = staging({}, 1);
  for (const char* strategy : {"ddp", "fsdp2"})
    EXPECT_NEAR(static_cast<double>(staging({std::string("--distributed.strategy=") + strategy}, 4)), static_cast<double>(alone) / 4, 16) << strategy;
  EXPECT_NEAR(static_cast<double>(staging({"--distributed.dp_replicate_size=2"}, 4)), static_cast<double>(alone) / 4, 16);
  EXPECT_EQ(staging({"--checkpoint.enabled=false"}, 1), 0);
}

/// What is not trained has neither a gradient nor moments, in bf16 no master either.
TEST(MemoryPlan, FrozenParametersAreWeightsAlone) {
  const tessera::test::TemporaryDirectory directory;
  const auto bytes = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.numel() * tensor.element_size() : 0; };
  for (const std::string freeze : {"freeze_embeddings=true", "patterns=['c_attn', 'ln_']", "patterns=['h\\.', 'wte', 'wpe']"}) {
    for (const std::string dtype : {"float32", "bfloat16"}) {
      const config::LoadedRecipe loaded = load_small_recipe(directory.path(), {"--model.torch_dtype=" + dtype, "--freeze_config." + freeze});
      const model::MemoryEstimate plan = plan_of(loaded, 1);
      const TrainingObjects objects = build_objects(loaded, no_variables, tessera::test::one_process_backend());
      std::int64_t weights = 0, gradients = 0, optimizer = 0;
      for (const model::FlatBuffer& buffer : objects.model.model.store->buffers()) {
        weights += bytes(buffer.compute) + (buffer.master.is_same(buffer.compute_shard) ? 0 : bytes(buffer.master));
        gradients += bytes(buffer.gradient);
      }
      for (const optim::Moments& moments : objects.optimizer->moments()) optimizer += bytes(moments.first) + bytes(moments.second);
      const auto near = [&](std::int64_t planned, std::int64_t measured) {
        EXPECT_NEAR(static_cast<double>(planned), static_cast<double>(measured), 0.01 * static_cast<double>(measured)) << freeze << " " << dtype;
      };
      near(plan.weights, weights);
      near(plan.gradients, gradients);
      near(plan.optimizer, optimizer);
    }
  }
}

}  // namespace
}  // namespace tessera::train::test
