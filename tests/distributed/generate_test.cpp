// Generation and evaluation over ranks give what one process gives.
#include <fmt/format.h>

#include "distributed/ranks.h"
#include "distributed/trajectory.h"
#include "tessera/generate/evaluate.h"
#include "tessera/generate/generator.h"
#include "tessera/model/causal_lm.h"
#include "tessera/model/config.h"

namespace tessera::test {
namespace {

struct GenerationLayout {
  std::string name;
  config::Distributed distributed;
};

std::vector<GenerationLayout> layouts() {
  const std::int64_t ranks = backend().world_size();
  std::vector<GenerationLayout> all{{"fsdp2", {}},
                                    {"ddp", {.strategy = config::Strategy::Ddp}},
                                    {"tp", {.sizes = {.tp_size = 2}}},
                                    {"tp sequence", {.sizes = {.tp_size = 2}, .sequence_parallel = true}},
                                    {"pp", {.sizes = {.pp_size = 2}}},
                                    {"pp v", {.sizes = {.pp_size = 2}}}};
  if (ranks == 4) all.push_back({"pp tp", {.sizes = {.tp_size = 2, .pp_size = 2}}});
  for (GenerationLayout& layout : all)
    if (layout.distributed.sizes.pp_size > 1) layout.distributed.pipeline.emplace();
  all[5].distributed.pipeline->pp_schedule = config::PipelineSchedule::ZBVZeroBubble;
  return all;
}

std::vector<data::TokenId> some_ids(std::int64_t count) {
  std::vector<data::TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<data::TokenId>((i * i * 7 + i * 3) % 60));
  return ids;
}

void expect_generates_as_one_process(const std::string& model, const GenerationLayout& layout) {
  SCOPED_TRACE(model + " " + layout.name);
  const auto one = model::CausalLM::from_pretrained(golden_directory(model), {.dtype = DType::F32});
  const generate::GenerationOptions options{.max_new_tokens = 20, .sampling = {}, .stop = {}};
  const std::vector<data::TokenId> prompt = some_ids(9), expected = generate::Generator(one).generate(prompt, options).ids;
  const auto setup = parallel::DistributedSetup::build(backend(), layout.distributed);
  const auto model_of_ranks = generate::CachedModel::from_pretrained(golden_directory(model), setup, DType::F32, 29);
  const generate::Generator generator(model_of_ranks);
  EXPECT_EQ(generator.generate(prompt, options).ids, expected);
  EXPECT_EQ(generator.generate(prompt, options).ids, expected) << "again";
}

const std::vector<std::string> kModels{"qwen3", "gpt2", "gemma2", "phi3_longrope"};

/// Every layout with one of the models, another one with another number of ranks.
RANKS_TEST(Generation, OverRanksIsThatOfOneProcess, 2, 4) {
  auto model = static_cast<std::size_t>(backend().world_size());
  for (const GenerationLayout& layout : layouts()) expect_generates_as_one_process(kModels[++model / 2 % kModels.size()], layout);
}

RANKS_TEST(Generation, LONG_EveryModelInEveryLayout, 2, 4) {
  for (const std::string& model : kModels)
    for (const GenerationLayout& layout : layouts()) expect_generates_as_one_process(model, layout);
}

RANKS_TEST(Generation, OfExpertsOverRanks, 2) {
  for (const std::string model : {"mixtral", "deepseek_v3_yarn"}) {
    const auto one = model::CausalLM::from_pretrained(golden_directory(model), {.dtype = DType::F32});
    const generate::GenerationOptions options{.max_new_tokens = 12, .sampling = {}, .stop = {}};
    const std::vector<data::TokenId> expected = generate::Generator(one).generate(some_ids(5), options).ids;
    for (const config::ParallelismSizes& sizes : {config::ParallelismSizes{.ep_size = 2}, config::ParallelismSizes{.tp_size = 2}}) {
      const auto setup = parallel::DistributedSetup::build(backend(), {.sizes = sizes});
      const auto model_of_ranks = generate::CachedModel::from_pretrained(golden_directory(model), setup, DType::F32, 17);
      EXPECT_EQ(generate::Generator(model_of_ranks).generate(some_ids(5), options).ids, expected) << model;
    }
  }
}

/// The cache grows by some hundreds of tokens at a time, whose windows reach into those before.
RANKS_TEST(Generation, LongPromptsAreRunInParts, 2) {
  const auto one = model::CausalLM::from_pretrained(golden_directory("gpt_oss"), {.dtype = DType::F32});
  const generate::GenerationOptions options{.max_new_tokens = 6, .sampling = {}, .stop = {}};
  const std::vector<data::TokenId> prompt = some_ids(600), expected = generate::Generator(one).generate(prompt, options).ids;
  const auto setup = parallel::DistributedSetup::build(backend(), {.sizes = {.tp_size = 2}});
  const auto model_of_ranks = generate::CachedModel::from_pretrained(golden_directory("gpt_oss"), setup, DType::F32, 606);
  EXPECT_EQ(generate::Generator(model_of_ranks).generate(prompt, options).ids, expected);
}

RANKS_TEST(Generation, AllRanksGetWhatTheFirstChose, 2) {
  const auto setup = parallel::DistributedSetup::build(backend(), {});
  const auto model = generate::CachedModel::from_pretrained(golden_directory("qwen3"), setup, DType::F32, 40);
  const auto generated = [&](std::uint64_t seed) {
    return generate::Generator(model).generate(some_ids(9), {.max_new_tokens = 20, .sampling = {.temperature = 2.0, .seed = seed}, .stop = {}}).ids;
  };
  const std::vector<data::TokenId> alike = generated(0), unlike = generated(static_cast<std::uint64_t>(backend().rank()));
  EXPECT_EQ(unlike, alike);
}

RANKS_TEST(Generation, IsNotCutAlongTheText, 2) {
  const auto setup = parallel::DistributedSetup::build(backend(), {.sizes = {.cp_size = 2}});
  EXPECT_THROW(generate::CachedModel::from_pretrained(golden_directory("qwen3"), setup, DType::F32, 29), UserError);
}

/// 13 windows of at most 20 tokens, which ranks do not share evenly.
RANKS_TEST(Evaluation, OverRanksIsThatOfOneProcess, 2, 4) {
  const auto one = model::CausalLM::from_pretrained(golden_directory("qwen3"), {.dtype = DType::F64});
  const std::vector<data::TokenId> ids = some_ids(250);
  const generate::Evaluation expected = generate::evaluate_windows(generate::window_loss(one), ids, 20, nullptr);
  std::vector<GenerationLayout> all = layouts();
  all.push_back({"cp", {.sizes = {.cp_size = 2}}});
  for (const GenerationLayout& layout : all) {
    SCOPED_TRACE(layout.name);
    const auto setup = parallel::DistributedSetup::build(backend(), layout.distributed);
    const auto model = parallel::CausalLM::from_pretrained(golden_directory("qwen3"), model::read_model_spec(golden_directory("qwen3")), setup,
                                                           {.dtype = DType::F64}, 8);
    const generate::Evaluation result = generate::evaluate_windows(generate::window_loss(model), ids, 20, nullptr);
    EXPECT_NEAR(result.sum, expected.sum, 1e-9 * expected.sum);
    EXPECT_EQ(result.num_tokens, expected.num_tokens);
  }
}

}  // namespace
}  // namespace tessera::test
