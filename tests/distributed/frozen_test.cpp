// Parameters that are not trained stay as they are and change nothing of the others, however the work is shared.
#include "distributed/frozen.h"

#include <fmt/format.h>

#include "distributed/expert_models.h"
#include "distributed/trajectory.h"
#include "tessera/config/pipeline_schedule.h"

namespace tessera::test {
namespace {

using config::Distributed;
using config::PipelineSchedule;
using config::Strategy;

struct Layout {
  std::string name;
  Distributed distributed;
};

Layout zero(std::int64_t stage) {
  Layout layout{fmt::format("zero-{}", stage), {.strategy = Strategy::MegatronFsdp}};
  layout.distributed.megatron_fsdp.zero_dp_strategy = stage;
  return layout;
}

Layout pipeline(PipelineSchedule schedule) {
  Layout layout{fmt::format("pp 2 {}", config::to_string(schedule)), {.sizes = {.pp_size = 2}}};
  layout.distributed.pipeline.emplace().pp_schedule = schedule;
  return layout;
}

std::vector<Layout> policies() {
  std::vector<Layout> all{{"ddp", {.strategy = Strategy::Ddp}}, {"fsdp2", {}}, {"fsdp2 each microbatch", {}}, zero(1), zero(2), zero(3)};
  all[2].distributed.fsdp2.defer_fsdp_grad_sync = false;
  if (backend().world_size() == 4) all.push_back({"hybrid", {.sizes = {.dp_replicate_size = 2}}});
  return all;
}

std::vector<Layout> frozen_splits() {
  return {{"tp 2", {.sizes = {.tp_size = 2}}},
          {"tp 2 sequence", {.sizes = {.tp_size = 2}, .sequence_parallel = true}},
          pipeline(PipelineSchedule::OneFOneB),
          pipeline(PipelineSchedule::ZBVZeroBubble)};
}

TrainingCase frozen_case(const std::string& model, const Layout& layout, const std::vector<std::string>& frozen, DType dtype = DType::F64) {
  const bool stages = layout.distributed.sizes.pp_size > 1;
  return {.model = model,
          .layout = layout.name,
          .distributed = layout.distributed,
          .accumulation = stages ? 4 : 2,
          .dtype = dtype,
          .rows = 16,
          .steps = 3,
          .frozen = frozen};
}

TrainingCase expert_case(const std::string& type, const Layout& layout, const std::vector<std::string>& frozen) {
  TrainingCase c = frozen_case(fmt::format("small {} of 4 layers", type), layout, frozen);
  c.config = small_expert_model(type, 4);
  return c;
}

/// Tied and not, with norms of heads and without.
std::vector<TrainingCase> policy_cases() {
  std::vector<TrainingCase> all;
  for (const Layout& layout : policies())
    for (const auto& frozen : kFrozen)
      for (const char* const model : {"llama_tied_llama3_rope", "qwen3"}) all.push_back(frozen_case(model, layout, frozen));
  return all;
}

RANKS_TEST(Frozen, UnderEveryPolicy, 2, 4) { expect_parity(sample(policy_cases(), 6)); }
RANKS_TEST(Frozen, LONG_UnderEveryPolicy, 2, 4) { expect_parity(policy_cases()); }

/// Steps that change nothing.
RANKS_TEST(Frozen, Everything, 2) {
  for (const Layout& layout : policies()) expect_parity(frozen_case("qwen3", layout, {"weight"}));
}

/// In bf16 what is frozen has no masters.
RANKS_TEST(Frozen, InHalfPrecision, 2) {
  for (const Layout& layout : policies()) expect_parity(frozen_case("qwen3", layout, {"layers.1.", "norm"}, DType::BF16));
}

std::vector<TrainingCase> split_cases() {
  std::vector<TrainingCase> all;
  for (const Layout& layout : frozen_splits())
    for (const auto& frozen : kFrozen)
      for (const char* const model : {"llama_tied_llama3_rope", "gpt2"}) all.push_back(frozen_case(model, layout, frozen));
  return all;
}

RANKS_TEST(Frozen, OverLayersAndStages, 2, 4) { expect_parity(sample(split_cases(), 5)); }
RANKS_TEST(Frozen, LONG_OverLayersAndStages, 2, 4) { expect_parity(split_cases()); }

std::vector<TrainingCase> expert_cases() {
  std::vector<TrainingCase> all;
  for (const char* const type : {"qwen3_moe", "deepseek_v3"})
    for (const Layout& layout : {Layout{"ep 2", {.sizes = {.ep_size = 2}}}, Layout{"tp 2", {.sizes = {.tp_size = 2}}}})
      for (const auto& frozen : kFrozen) all.push_back(expert_case(type, layout, frozen));
  return all;
}

RANKS_TEST(Frozen, Experts, 2, 4) { expect_parity(sample(expert_cases(), 4)); }
RANKS_TEST(Frozen, LONG_Experts, 2, 4) { expect_parity(expert_cases()); }

}  // namespace
}  // namespace tessera::test
