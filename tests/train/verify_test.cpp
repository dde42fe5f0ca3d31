#include "tessera/train/verify.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/support.h"
#include "train/one_process.h"

namespace tessera::train {
namespace {

std::string failures(const Verification& verification) {
  std::string text;
  for (const Comparison& comparison : verification.comparisons)
    if (!comparison.passed()) text += comparison.name + " " + std::to_string(comparison.error) + "; ";
  return text;
}

void expect_golden(const std::filesystem::path& directory, const VerifyOptions& options = {}) {
  const Verification verification = verify_golden(directory, options, test::one_process_backend());
  EXPECT_TRUE(verification.passed()) << directory << ": " << failures(verification);
  EXPECT_GE(verification.comparisons.size(), 10U);
}

class VerifyCommitted : public testing::TestWithParam<const char*> {};

TEST_P(VerifyCommitted, SinglePrecision) { expect_golden(test::test_data("goldens") / GetParam()); }
TEST_P(VerifyCommitted, UnevenMicrobatches) { expect_golden(test::test_data("goldens") / GetParam(), {.local_batch_size = 5}); }
TEST_P(VerifyCommitted, FullCheckpointing) {
  expect_golden(test::test_data("goldens") / GetParam(), {.local_batch_size = 7, .activation_checkpointing = model::ActivationCheckpointing::Full});
}
TEST_P(VerifyCommitted, SelectiveCheckpointing) {
  expect_golden(test::test_data("goldens") / GetParam(),
                {.local_batch_size = 9, .activation_checkpointing = model::ActivationCheckpointing::Selective});
}
// The composites of ATen operators, which GPUs run, against the same numbers.
TEST_P(VerifyCommitted, DoublePrecisionComposites) { expect_golden(test::test_data("goldens") / GetParam(), {.dtype = DType::F64}); }

INSTANTIATE_TEST_SUITE_P(Goldens, VerifyCommitted,
                         testing::Values("llama_tied_llama3_rope", "gpt2", "gpt2_inverse_layer_scale", "gemma2", "qwen3", "phi3_longrope", "mixtral",
                                         "qwen2_moe", "gpt_oss", "deepseek_v3_yarn", "glm4_moe"),
                         [](const auto& info) { return std::string(info.param); });

/// Without experts: rounding to eight bits sends some tokens to others.
class VerifyDense : public testing::TestWithParam<const char*> {};

TEST_P(VerifyDense, Bfloat16) { expect_golden(test::test_data("goldens") / GetParam(), {.dtype = DType::BF16}); }

INSTANTIATE_TEST_SUITE_P(Goldens, VerifyDense,
                         testing::Values("llama_tied_llama3_rope", "gpt2", "gpt2_inverse_layer_scale", "gemma2", "qwen3", "phi3_longrope"),
                         [](const auto& info) { return std::string(info.param); });

class VerifyShared : public testing::TestWithParam<const char*> {};

TEST_P(VerifyShared, SinglePrecision) {
  const std::filesystem::path directory = test::shared_data("goldens") / GetParam();
  TESSERA_SKIP_WITHOUT(directory);
  expect_golden(directory);
}

INSTANTIATE_TEST_SUITE_P(Goldens, VerifyShared,
                         testing::Values("llama", "llama_tied_llama3_rope", "llama_yarn_bias", "llama_deep_kv2", "qwen3_deep_kv1", "mistral_sliding",
                                         "qwen2", "qwen3", "gpt2", "phi3_longrope", "olmo2", "gemma2", "gemma3", "granite", "mixtral", "qwen3_moe",
                                         "qwen3_moe_deep", "gpt_oss", "deepseek_v3"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Verify, SeesAWrongGradient) {
  // A model that differs from the golden's in one number must not pass.
  const test::TemporaryDirectory directory;
  std::filesystem::copy(test::test_data("goldens/qwen3"), directory.path(), std::filesystem::copy_options::recursive);
  std::string weights = test::read_file(directory / "model.safetensors");
  weights[weights.size() - 6] = static_cast<char>(weights[weights.size() - 6] ^ 0x40);  // a high bit of a mantissa
  test::write_file(directory / "model.safetensors", weights);
  EXPECT_FALSE(verify_golden(directory.path(), {}, test::one_process_backend()).passed());
}

TEST(Verify, ADirectoryWithoutGoldensIsNamed) {
  const test::TemporaryDirectory directory;
  EXPECT_NE(test::error_of([&] { verify_golden(directory.path(), {}, test::one_process_backend()); }).find("golden.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace tessera::train
