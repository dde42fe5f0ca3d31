#include "tessera/generate/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "generate/small_models.h"

namespace tessera::generate::test {
namespace {

/// Negative log-likelihood of ids[1…] from the logits themselves.
double direct_sum(const model::CausalLM& model, const std::vector<data::TokenId>& ids) {
  const at::Tensor log_probabilities = full_logits(model, ids).to(at::kDouble).log_softmax(-1);
  double sum = 0.0;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) sum -= log_probabilities[static_cast<std::int64_t>(i)][ids[i + 1]].item<double>();
  return sum;
}

std::vector<data::TokenId> part(const std::vector<data::TokenId>& ids, std::size_t begin, std::size_t end) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.begin() + static_cast<std::ptrdiff_t>(end)};
}

TEST(Evaluate, WindowsPredictEveryTokenButTheFirstOnce) {
  for (const char* const name : {"gemma2", "phi3_longrope", "gpt2"}) {
    const model::CausalLM model = golden_model(name);
    const std::vector<data::TokenId> ids = random_ids(50, 8);
    const Evaluation result = evaluate_windows(window_loss(model), ids, 20, nullptr);
    EXPECT_EQ(result.num_tokens, 49);
    EXPECT_EQ(result.num_documents, 1);
    const double expected = direct_sum(model, part(ids, 0, 21)) + direct_sum(model, part(ids, 20, 41)) + direct_sum(model, part(ids, 40, 50));
    EXPECT_NEAR(result.sum, expected, 1e-5 * expected);
    EXPECT_NEAR(result.mean(), expected / 49.0, 1e-5);
    EXPECT_NEAR(result.perplexity(), std::exp(expected / 49.0), 1e-3 * result.perplexity());
  }
}

TEST(Evaluate, AWindowAsLongAsTheTextIsTheText) {
  const model::CausalLM model = golden_model("qwen3");
  const std::vector<data::TokenId> ids = random_ids(21, 8);
  for (const std::int64_t window : {20, 21, 500})
    EXPECT_NEAR(evaluate_windows(window_loss(model), ids, window, nullptr).sum, direct_sum(model, ids), 1e-3);
}

TEST(Evaluate, DocumentsBeginAnew) {
  const model::CausalLM model = golden_model("qwen3");
  const std::vector<std::vector<data::TokenId>> documents = {random_ids(7, 1), random_ids(1, 2), {}, random_ids(15, 3)};
  std::vector<std::pair<std::int64_t, std::int64_t>> progress;
  const Evaluation result =
      evaluate_documents(window_loss(model), documents, 10, [&](std::int64_t done, std::int64_t total) { progress.emplace_back(done, total); });
  EXPECT_EQ(result.num_tokens, 6 + 14);
  EXPECT_EQ(result.num_documents, 4);
  const double expected =
      direct_sum(model, documents[0]) + direct_sum(model, part(documents[3], 0, 11)) + direct_sum(model, part(documents[3], 10, 15));
  EXPECT_NEAR(result.sum, expected, 1e-5 * expected);
  EXPECT_EQ(progress, (std::vector<std::pair<std::int64_t, std::int64_t>>{{6, 20}, {16, 20}, {20, 20}}));
}

TEST(Evaluate, NothingToPredict) {
  const model::CausalLM model = golden_model("qwen3");
  EXPECT_EQ(evaluate_windows(window_loss(model), random_ids(1, 1), 8, nullptr).num_tokens, 0);
  EXPECT_EQ(evaluate_windows(window_loss(model), {}, 8, nullptr).mean(), 0.0);
}

TEST(SplitDocuments, StripsTheLeftAndDropsEmptyOnes) {
  EXPECT_EQ(split_documents("a b <e>\n\t c\n<e> \n<e>d", "<e>"), (std::vector<std::string>{"a b ", "c\n", "d"}));
  EXPECT_EQ(split_documents("alone", "<e>"), (std::vector<std::string>{"alone"}));
  EXPECT_TRUE(split_documents(" \n", "<e>").empty());
  EXPECT_TRUE(split_documents("", "<e>").empty());
  EXPECT_EQ(split_documents("a<e>", "<e>"), (std::vector<std::string>{"a"}));
}

}  // namespace
}  // namespace tessera::generate::test
