#include "tessera/data/packing.h"

#include <gtest/gtest.h>

#include "support/support.h"
#include "tessera/data/collate.h"
#include "tessera/model/config.h"
#include "tessera/train/step.h"
#include "train/one_process.h"

namespace tessera::train {
namespace {

/// Documents of uneven lengths whose tokens all differ; every third label is not learnt.
class Documents : public data::Dataset {
 public:
  std::int64_t size() const override { return 5; }
  data::Sample sample(std::int64_t index) const override {
    constexpr std::int64_t lengths[] = {7, 24, 1, 13, 18};
    data::Sample sample;
    for (std::int64_t t = 0; t < lengths[index]; ++t) {
      sample.input_ids.push_back((37 * index + 11 * t + 3) % 250);
      sample.labels.push_back(t % 3 == 2 ? kIgnoredLabel : (37 * index + 11 * t + 14) % 250);
    }
    sample.number = index;
    return sample;
  }
  std::string description() const override { return "documents"; }
};

std::vector<at::Tensor> gradients_of(parallel::CausalLM& model, const std::vector<data::Batch>& microbatches, GradientResult& result) {
  result = accumulate_gradients(model, microbatches, 0);
  std::vector<at::Tensor> gradients;
  for (const model::FlatBuffer& buffer : model.model.store->buffers()) gradients.push_back(buffer.gradient.clone());
  return gradients;
}

/// Attention of every kind (full, sliding window, soft caps, rope by document length, learnt positions) stays inside its document.
class PackParity : public testing::TestWithParam<const char*> {};

TEST_P(PackParity, LossAndGradientsAreThoseOfItsDocumentsAlone) {
  const std::filesystem::path directory = test::test_data(std::string("goldens/") + GetParam());
  parallel::CausalLM model =
      parallel::CausalLM::from_pretrained(directory, model::read_model_spec(directory), test::one_process(), {.trainable = true});
  const auto documents = std::make_shared<Documents>();
  const data::PackedDataset packs(documents, {.size = 40, .strategy = data::PackingStrategy::InOrder}, 1);
  ASSERT_EQ(packs.size(), 2);
  std::vector<data::Batch> packed, alone;
  for (std::int64_t index = 0; index < packs.size(); ++index) {
    const data::Sample pack = packs.sample(index);
    packed.push_back(data::collate(std::span(&pack, 1), {}));
  }
  for (std::int64_t index = 0; index < documents->size(); ++index) {
    const data::Sample document = documents->sample(index);
    alone.push_back(data::collate(std::span(&document, 1), {}));
  }

  GradientResult of_packs, of_documents;
  const auto expected = gradients_of(model, alone, of_documents);
  const auto found = gradients_of(model, packed, of_packs);
  EXPECT_EQ(of_packs.num_label_tokens, of_documents.num_label_tokens);
  EXPECT_EQ(of_packs.num_tokens, of_documents.num_tokens);
  EXPECT_NEAR(of_packs.loss, of_documents.loss, 1e-6 * of_documents.loss);
  for (std::size_t buffer = 0; buffer < expected.size(); ++buffer) {
    const double scale = expected[buffer].abs().max().item<double>();
    EXPECT_LE((found[buffer] - expected[buffer]).abs().max().item<double>(), 1e-5 * scale);
  }

  // The test can fail: without boundaries the documents see each other.
  for (data::Batch& batch : packed) batch.document_starts.clear();
  GradientResult mixed;
  gradients_of(model, packed, mixed);
  EXPECT_GT(std::abs(mixed.loss - of_documents.loss), 1e-4 * of_documents.loss);
}

INSTANTIATE_TEST_SUITE_P(Families, PackParity, testing::Values("qwen3", "gpt2", "gemma2", "phi3_longrope", "llama_tied_llama3_rope"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tessera::train
