#include "tessera/generate/session.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "generate/small_models.h"

namespace tessera::generate::test {
namespace {

double largest_difference(const at::Tensor& a, const at::Tensor& b) { return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>(); }

/// Grows a text by the given numbers of tokens and compares the logits after each with those of the whole text run at once.
void expect_as_without_cache(const model::CausalLM& model, const std::vector<std::int64_t>& growth, double tolerance) {
  std::vector<data::TokenId> text = random_ids(60, 3);
  for (data::TokenId& id : text) id %= static_cast<data::TokenId>(model.spec.vocab_size);
  Session session(model, 60);
  std::int64_t length = 0;
  for (const std::int64_t tokens : growth) {
    length += tokens;
    const std::vector<data::TokenId> part(text.begin(), text.begin() + length);
    const at::Tensor logits = session.advance(part);
    ASSERT_EQ(session.length(), length);
    ASSERT_LE(largest_difference(logits[0], full_logits(model, part)[length - 1]), tolerance) << "after " << length << " tokens";
  }
}

class Sessions : public testing::TestWithParam<const char*> {};
// gemma2: window of 8 and soft caps; phi3: other angles from 17 tokens on, for the cached keys too.
INSTANTIATE_TEST_SUITE_P(Goldens, Sessions, testing::Values("llama_tied_llama3_rope", "gpt2", "gemma2", "qwen3", "phi3_longrope"),
                         [](const auto& info) { return std::string(info.param); });

std::vector<std::int64_t> one_by_one(std::int64_t prompt, std::int64_t total) {
  std::vector<std::int64_t> growth = {prompt};
  growth.insert(growth.end(), static_cast<std::size_t>(total - prompt), 1);
  return growth;
}

TEST_P(Sessions, EveryStepEqualsTheWholeTextAtOnce) {
  expect_as_without_cache(golden_model(GetParam()), one_by_one(6, 30), 2e-5);
  expect_as_without_cache(golden_model(GetParam()), one_by_one(1, 4), 2e-5);
  expect_as_without_cache(golden_model(GetParam()), one_by_one(40, 44), 2e-5);
}

TEST_P(Sessions, SoDoesAnyOtherWayToGrow) { expect_as_without_cache(golden_model(GetParam()), {3, 4, 1, 1, 9, 2, 1, 20, 1, 1}, 2e-5); }

TEST_P(Sessions, SoDoTheComposites) { expect_as_without_cache(golden_model(GetParam(), DType::F64), {5, 1, 1, 12, 1, 1}, 1e-5); }

TEST_P(Sessions, Bf16StaysWithinItsRounding) { expect_as_without_cache(golden_model(GetParam(), DType::BF16), one_by_one(6, 24), 0.15); }

/// Rounding to eight bits sends some tokens to other experts: not in bf16.
class ExpertSessions : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Goldens, ExpertSessions, testing::Values("mixtral", "qwen2_moe", "gpt_oss", "deepseek_v3_yarn", "glm4_moe"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ExpertSessions, EveryStepEqualsTheWholeTextAtOnce) {
  expect_as_without_cache(golden_model(GetParam()), one_by_one(6, 30), 2e-5);
  expect_as_without_cache(golden_model(GetParam()), {3, 4, 1, 1, 9, 2, 1, 20, 1, 1}, 2e-5);
  expect_as_without_cache(golden_model(GetParam(), DType::F64), {5, 1, 1, 12, 1, 1}, 1e-5);
}

TEST(Session, OnlyWhatIsNewIsRun) {
  const model::CausalLM model = golden_model("llama_tied_llama3_rope");
  const std::vector<data::TokenId> text = random_ids(12, 4);
  std::vector<data::TokenId> other = text;
  other[2] = (other[2] + 1) % 300;
  Session session(model, 12);
  session.advance({text.data(), 8});
  const at::Tensor from_cache = session.advance(other);  // its third token was another one when it was run
  EXPECT_LE(largest_difference(from_cache[0], full_logits(model, text)[11]), 2e-5);
}

}  // namespace
}  // namespace tessera::generate::test
