#include "tessera/generate/generator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "generate/small_models.h"
#include "tessera/core/json.h"

namespace tessera::generate::test {
namespace {

using tessera::test::error_of;

/// The greedy continuation by running the whole text for each token.
std::vector<data::TokenId> greedy_without_cache(const model::CausalLM& model, std::vector<data::TokenId> text, int tokens) {
  std::vector<data::TokenId> added;
  for (int i = 0; i < tokens; ++i) {
    added.push_back(static_cast<data::TokenId>(full_logits(model, text)[static_cast<std::int64_t>(text.size()) - 1].argmax().item<std::int64_t>()));
    text.push_back(added.back());
  }
  return added;
}

TEST(Generator, GreedyEqualsGenerationWithoutACache) {
  for (const char* const name : {"llama_tied_llama3_rope", "gpt2", "gemma2", "phi3_longrope"}) {
    const model::CausalLM model = golden_model(name);
    const std::vector<data::TokenId> prompt = random_ids(9, 5);
    const Generation generation = Generator(model).generate(prompt, {.max_new_tokens = 20, .sampling = {}, .stop = {}});
    EXPECT_EQ(generation.ids, greedy_without_cache(model, prompt, 20)) << name;
    EXPECT_FALSE(generation.stopped);
  }
}

/// tests/data/generate/make_greedy.py computed them in float64.
TEST(Generator, GreedyTokensOfMixturesOfExpertsAreThoseOfTransformers) {
  const Json golden = Json::parse(tessera::test::read_file(tessera::test::test_data("generate/greedy.json")));
  EXPECT_EQ(golden.size(), 5U);
  for (const auto& [name, entry] : golden.items()) {
    const auto prompt = entry.at("prompt").get<std::vector<data::TokenId>>(), expected = entry.at("continuation").get<std::vector<data::TokenId>>();
    const Generation generation =
        Generator(golden_model(name)).generate(prompt, {.max_new_tokens = std::ssize(expected), .sampling = {}, .stop = {}});
    EXPECT_EQ(generation.ids, expected) << name;
  }
}

TEST(Generator, EndsAfterAStopToken) {
  const model::CausalLM model = golden_model("qwen3");
  const std::vector<data::TokenId> prompt = random_ids(4, 6);
  const std::vector<data::TokenId> all = Generator(model).generate(prompt, {.max_new_tokens = 12, .sampling = {}, .stop = {}}).ids;
  const data::TokenId stop = all[5];
  const auto first = std::ranges::find(all, stop) - all.begin();
  const Generation generation = Generator(model).generate(prompt, {.max_new_tokens = 12, .sampling = {}, .stop = {-7, stop}});
  EXPECT_TRUE(generation.stopped);
  EXPECT_EQ(generation.ids, std::vector<data::TokenId>(all.begin(), all.begin() + first + 1));
}

TEST(Generator, TellsEachTokenAndListens) {
  const model::CausalLM model = golden_model("qwen3");
  std::vector<data::TokenId> told;
  const Generation generation =
      Generator(model).generate(random_ids(4, 6), {.max_new_tokens = 12, .sampling = {}, .stop = {}}, [&](data::TokenId id) {
        told.push_back(id);
        return told.size() < 3;
      });
  EXPECT_EQ(told.size(), 3U);
  EXPECT_EQ(generation.ids, told);
  EXPECT_FALSE(generation.stopped);
}

TEST(Generator, SamplesByItsSeed) {
  const model::CausalLM model = golden_model("qwen3");
  const auto sample = [&](std::uint64_t seed) {
    return Generator(model).generate(random_ids(4, 6), {.max_new_tokens = 16, .sampling = {.temperature = 2.0, .seed = seed}, .stop = {}}).ids;
  };
  EXPECT_EQ(sample(1), sample(1));
  EXPECT_NE(sample(1), sample(2));
}

TEST(Generator, NothingToGenerate) {
  const model::CausalLM model = golden_model("qwen3");
  EXPECT_TRUE(Generator(model).generate(random_ids(4, 6), {.max_new_tokens = 0, .sampling = {}, .stop = {}}).ids.empty());
}

TEST(Generator, UsesTheLastPosition) {
  const model::CausalLM model = golden_model("phi3_longrope");  // 64 positions
  EXPECT_EQ(Generator(model).generate(random_ids(60, 6), {.max_new_tokens = 4, .sampling = {}, .stop = {}}).ids.size(), 4U);
}

TEST(Generator, RefusesWhatTheModelCannotDo) {
  const model::CausalLM model = golden_model("phi3_longrope");
  const Generator generator(model);
  const auto error = [&](const std::vector<data::TokenId>& prompt, const GenerationOptions& options) {
    return error_of([&] { generator.generate(prompt, options); });
  };
  EXPECT_NE(error({}, {}).find("the prompt has no tokens"), std::string::npos);
  EXPECT_NE(error({3, 320}, {.max_new_tokens = 1, .sampling = {}, .stop = {}}).find("token id 320 is outside the model's vocabulary of 320"),
            std::string::npos);
  EXPECT_NE(error({-1}, {.max_new_tokens = 1, .sampling = {}, .stop = {}}).find("token id -1"), std::string::npos);
  EXPECT_NE(error(random_ids(60, 1), {.max_new_tokens = 5, .sampling = {}, .stop = {}})
                .find("60 prompt tokens and 5 new ones are more than the model's 64"),
            std::string::npos);
  EXPECT_NE(error({3}, {.max_new_tokens = 1, .sampling = {.top_p = 2.0}, .stop = {}}).find("top-p"), std::string::npos);
}

}  // namespace
}  // namespace tessera::generate::test
