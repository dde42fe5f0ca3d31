// Cutting the model into stages, by every schedule and beside every other split, gives what one process gives.
#include <fmt/format.h>

#include "distributed/schedules.h"
#include "distributed/trajectory.h"
#include "tessera/config/pipeline_schedule.h"
#include "tessera/parallel/pipeline/schedule.h"

namespace tessera::test {
namespace {

using config::PipelineSchedule;
using model::ActivationCheckpointing;

/// Random weights of a small model with so many layers, its head tied to the embedding or not.
Json small_model(const std::string& type, int num_layers, bool tied) {
  return {{"model_type", type},         {"vocab_size", 61},         {"hidden_size", 32}, {"intermediate_size", 48}, {"num_hidden_layers", num_layers},
          {"num_attention_heads", 4},   {"num_key_value_heads", 2}, {"head_dim", 8},     {"pad_token_id", nullptr}, {"eos_token_id", nullptr},
          {"tie_word_embeddings", tied}};
}

struct PipelineSplit {
  std::int64_t pp = 1, tp = 1, cp = 1, replicas = 1;
};

TrainingCase pipeline_case(PipelineSchedule schedule, const PipelineSplit& split, std::int64_t num_microbatches, int num_layers, bool tied) {
  config::Distributed distributed{.sizes = {.dp_replicate_size = split.replicas, .tp_size = split.tp, .pp_size = split.pp, .cp_size = split.cp}};
  distributed.pipeline.emplace().pp_schedule = schedule;
  const std::int64_t dp = backend().world_size() / (split.pp * split.tp * split.cp);
  const std::string name = fmt::format("{} pp {} tp {} cp {} replicas {}", config::to_string(schedule), split.pp, split.tp, split.cp, split.replicas);
  return {.model = fmt::format("small llama of {} layers{}", num_layers, tied ? ", tied" : ""),
          .layout = name,
          .distributed = distributed,
          .accumulation = num_microbatches,
          .dtype = DType::F64,
          .rows = 3 * num_microbatches * dp,
          .steps = 3,
          .config = small_model("llama", num_layers, tied)};
}

/// p, 2p, and a number that p does not divide.
std::vector<std::int64_t> numbers_of_microbatches(PipelineSchedule schedule, std::int64_t pp) {
  std::vector<std::int64_t> fitting;
  for (const std::int64_t count : {pp, 2 * pp, pp + pp / 2 + pp % 2, 2 * pp + 1}) {
    ProblemList problems;
    const int stages = pipeline::default_stages_per_rank(schedule);
    pipeline::check_size(schedule, {.num_ranks = static_cast<int>(pp), .num_microbatches = static_cast<int>(count), .stages_per_rank = stages}, "",
                         problems);
    if (problems.empty() && (count != 2 * pp + 1 || fitting.size() < 3)) fitting.push_back(count);
  }
  return fitting;
}

/// Every way of sharing out the ranks with a pipeline among them.
std::vector<PipelineSplit> pipeline_splits() {
  const std::int64_t ranks = backend().world_size();
  std::vector<PipelineSplit> all;
  for (const std::int64_t pp : {2, 3, 4, 8}) {
    for (const std::int64_t tp : {1, 2}) {
      for (const std::int64_t cp : {1, 2}) {
        if (ranks % (pp * tp * cp) != 0) continue;
        const std::int64_t dp = ranks / (pp * tp * cp);
        all.push_back({pp, tp, cp, 1});
        if (dp > 2) all.push_back({pp, tp, cp, 2});
      }
    }
  }
  return all;
}

std::vector<TrainingCase> pipeline_cases(DType dtype) {
  std::vector<TrainingCase> all;
  for (const PipelineSchedule schedule : kAnySchedule)
    for (const PipelineSplit& split : pipeline_splits())
      for (const std::int64_t count : numbers_of_microbatches(schedule, split.pp))
        for (const bool tied : {false, true}) {
          all.push_back(pipeline_case(schedule, split, count, split.pp == 8 ? 16 : 9, tied));
          all.back().dtype = dtype;
          all.back().weight_tolerance = 1e-4;
          all.back().norm_tolerance = 5e-5;
        }
  return all;
}

RANKS_TEST(PipelineParity, EverySchedule, 2, 4) {
  for (const PipelineSchedule schedule : kAnySchedule)
    expect_parity(pipeline_case(schedule, {.pp = backend().world_size()}, 2 * backend().world_size(), 9, true));
}

RANKS_TEST(PipelineParity, DoublePrecision, 2, 3, 4, 8) { expect_parity(sample(pipeline_cases(DType::F64), 6)); }
RANKS_TEST(PipelineParity, SinglePrecision, 2, 4, 8) { expect_parity(sample(pipeline_cases(DType::F32), 3)); }
RANKS_TEST(PipelineParity, LONG_DoublePrecision, 2, 3, 4, 8) { expect_parity(pipeline_cases(DType::F64)); }
RANKS_TEST(PipelineParity, LONG_SinglePrecision, 2, 3, 4, 8) { expect_parity(covering_pairs(pipeline_cases(DType::F32))); }

/// What a stage keeps between its passes, whatever recomputation says; masks follow the layer's number in the whole model.
RANKS_TEST(PipelineParity, RecomputationPackingAndDropout, 2, 4) {
  const std::int64_t pp = backend().world_size();
  for (const PipelineSchedule schedule : {PipelineSchedule::OneFOneB, PipelineSchedule::InterleavedZeroBubble, PipelineSchedule::ZBVZeroBubble}) {
    for (const auto checkpointing : {ActivationCheckpointing::Full, ActivationCheckpointing::Selective}) {
      TrainingCase c = pipeline_case(schedule, {.pp = pp}, 2 * pp, 9, true);
      c.checkpointing = checkpointing;
      c.packed = checkpointing == ActivationCheckpointing::Full;
      c.dropout = true;
      expect_parity(c);
    }
  }
}

/// The families whose units differ: learned positions beside the embedding, norms on both sides of a branch, norms of heads.
RANKS_TEST(PipelineParity, Families, 2, 4) {
  for (const char* const model : {"llama_tied_llama3_rope", "qwen3", "gpt2", "gemma2", "phi3_longrope"}) {
    TrainingCase c = pipeline_case(PipelineSchedule::OneFOneB, {.pp = backend().world_size()}, 6, 4, true);
    c.model = model;
    c.config = {};
    expect_parity(c);
  }
}

/// The last step of an epoch has fewer microbatches than the schedule, and some ranks none.
RANKS_TEST(PipelineParity, ShortSteps, 2, 4) {
  for (const PipelineSchedule schedule : {PipelineSchedule::OneFOneB, PipelineSchedule::DualPipeV}) {
    TrainingCase c = pipeline_case(schedule, {.pp = 2}, 8, 9, true);
    c.rows = 3;
    expect_parity(c);
  }
}

/// Weights that are gathered for each pass.
RANKS_TEST(PipelineParity, GatheredForEachPass, 4) {
  for (const PipelineSchedule schedule : {PipelineSchedule::OneFOneB, PipelineSchedule::ZBVZeroBubble}) {
    TrainingCase c = pipeline_case(schedule, {.pp = 2}, 4, 9, true);
    c.distributed.fsdp2.reshard_after_forward = true;
    c.layout += " gathered for each pass";
    expect_parity(c);
  }
}

}  // namespace
}  // namespace tessera::test
