// A trained model of 260 thousand parameters, from llama2.c's own files to the numbers its authors' program gives.
#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>

#include "generate/small_models.h"
#include "tessera/core/file.h"
#include "tessera/generate/evaluate.h"
#include "tessera/generate/generator.h"
#include "tessera/model/convert.h"

namespace tessera::generate::test {
namespace {

/// What the line of the golden file that begins with `key` says after it.
std::string golden_line(const std::string& key) {
  std::istringstream lines(tessera::test::read_file(tessera::test::shared_data("data/lm/stories260K.golden.txt")));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key)) return line.substr(key.size());
  ADD_FAILURE() << "no line " << key;
  return "";
}

template <class T>
std::vector<T> golden_numbers(const std::string& key) {
  std::istringstream numbers(golden_line(key));
  return {std::istream_iterator<T>(numbers), {}};
}

model::CausalLM converted_stories(const std::filesystem::path& directory) {
  const auto operations = posix_file_operations();
  model::convert_model(*operations,
                       {.source = tessera::test::shared_data("data/lm/stories260K.bin"), .destination = directory, .dtype = {}, .files = {}});
  return model::CausalLM::from_pretrained(directory, {});
}

constexpr data::TokenId kBos = 1;

TEST(Stories, GreedyTokensAndFirstLogits) {
  TESSERA_SKIP_WITHOUT(tessera::test::shared_data("data/lm/stories260K.bin"));
  const tessera::test::TemporaryDirectory directory;
  const model::CausalLM model = converted_stories(directory / "model");
  const auto expected = golden_numbers<data::TokenId>("greedy ids:");
  ASSERT_EQ(expected.size(), 64U);
  const std::vector<data::TokenId> prompt = {kBos};
  EXPECT_EQ(Generator(model).generate(prompt, {.max_new_tokens = 64, .sampling = {}, .stop = {}}).ids, expected);
  const auto logits = golden_numbers<double>("logits[BOS] 0..7:");
  ASSERT_EQ(logits.size(), 8U);
  const at::Tensor first = full_logits(model, {kBos})[0];
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_NEAR(first[i].item<double>(), logits[static_cast<std::size_t>(i)], 2e-5);
}

TEST(Stories, MeanLossOfTheSample) {
  TESSERA_SKIP_WITHOUT(tessera::test::shared_data("data/lm/stories260K.bin"));
  const tessera::test::TemporaryDirectory directory;
  const model::CausalLM model = converted_stories(directory / "model");
  const data::Tokenizer tokenizer = data::load_tokenizer(tessera::test::shared_data("data/lm/tok512.model"));
  const std::string text = tessera::test::read_file(tessera::test::shared_data("data/lm/tinystories_sample.txt"));
  std::vector<std::vector<data::TokenId>> documents;
  for (const std::string& document : split_documents(text, "<|endoftext|>")) {
    documents.push_back(tokenizer.encode(document, false));
    documents.back().insert(documents.back().begin(), kBos);
  }
  const Evaluation result = evaluate_documents(window_loss(model), documents, model.spec.max_position_embeddings, nullptr);
  int golden_documents = 0, golden_tokens = 0;
  double golden_mean = 0.0;
  ASSERT_EQ(std::sscanf(golden_line("docs=").c_str(), "%d tokens=%d mean_nll=%lf", &golden_documents, &golden_tokens, &golden_mean), 3);
  EXPECT_EQ(result.num_documents, golden_documents);
  EXPECT_EQ(result.num_tokens, golden_tokens);
  EXPECT_NEAR(result.mean(), golden_mean, 1e-6);
}

}  // namespace
}  // namespace tessera::generate::test
