// What the passes of a pipeline keep: as many microbatches as the schedule says, whatever their number in the step.
#include <gtest/gtest.h>

#include "distributed/ranks.h"
#include "support/allocation_counter.h"
#include "tessera/config/pipeline_schedule.h"
#include "tessera/model/config.h"
#include "tessera/train/step.h"

namespace tessera::train {
namespace {

constexpr std::int64_t kLength = 128, kHidden = 64;

data::Batch one_pipeline_row(std::int64_t number) {
  data::Batch batch{.rows = 1, .length = kLength};
  for (std::int64_t position = 0; position < kLength; ++position) {
    batch.input_ids.push_back((number * 7 + position) % 50);
    batch.labels.push_back((number * 3 + position) % 50);
    batch.position_ids.push_back(position);
  }
  batch.lengths = {kLength};
  batch.numbers = {number};
  return batch;
}

/// The most bytes that a step takes on this rank beside what it keeps between steps.
std::int64_t peak_of_a_step(config::PipelineSchedule schedule, int num_microbatches) {
  const std::int64_t ranks = tessera::test::backend().world_size();
  const model::ModelSpec spec = model::model_spec_from_json({{"model_type", "llama"},
                                                             {"hidden_size", kHidden},
                                                             {"intermediate_size", 128},
                                                             {"num_hidden_layers", 2 * ranks},
                                                             {"num_attention_heads", 4},
                                                             {"vocab_size", 50},
                                                             {"max_position_embeddings", kLength}},
                                                            "test");
  config::Distributed distributed{.sizes = {.pp_size = ranks}};
  distributed.pipeline.emplace().pp_schedule = schedule;
  const auto setup = parallel::DistributedSetup::build(tessera::test::backend(), distributed);
  parallel::CausalLM model = parallel::CausalLM::from_config(spec, 1, setup, {.trainable = true}, num_microbatches);
  optim::Optimizer optimizer(*model.model.store, {});
  std::vector<data::Batch> batches;
  for (int number = 0; number < num_microbatches; ++number) batches.push_back(one_pipeline_row(number));
  training_step(model, optimizer, batches, 0, {.learning_rate = 1e-3}, 1.0);
  const tessera::test::AllocationCounter counter;
  training_step(model, optimizer, batches, 1, {.learning_rate = 1e-3}, 1.0);
  return counter.peak();
}

RANKS_TEST(PipelineMemory, OneForwardOneBackwardKeepsAsManyMicrobatchesAsRanks, 2, 4) {
  const int ranks = static_cast<int>(tessera::test::backend().world_size());
  const std::int64_t few = peak_of_a_step(config::PipelineSchedule::OneFOneB, ranks);
  const std::int64_t many = peak_of_a_step(config::PipelineSchedule::OneFOneB, 8 * ranks);
  // Token numbers, positions and labels of all microbatches are there from the start. A message that was sent is freed by the thread that sends,
  // which the counter does not see: two for each microbatch, a twentieth of what its passes keep here.
  const std::int64_t numbers = 7 * ranks * kLength * 3 * 8, messages = (2 * 7 * ranks + 3) * kLength * kHidden * 4;
  EXPECT_LE(many, few + numbers + messages);
  const std::int64_t all = peak_of_a_step(config::PipelineSchedule::GPipe, 8 * ranks);
  EXPECT_GE(all - few, 4 * (many - few)) << "gpipe keeps them all";
  EXPECT_GE(all, 3 * few);
}

}  // namespace
}  // namespace tessera::train
