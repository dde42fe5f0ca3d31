#include "tessera/train/validation.h"

#include <gtest/gtest.h>

#include "tessera/loss/cross_entropy.h"
#include "tessera/train/batch_tensors.h"
#include "train/one_process.h"
#include "train/small_recipe.h"

namespace tessera::train::test {
namespace {

bool never() { return false; }

TEST(Validation, IsTheMeanOverAllLabelsWithoutDropout) {
  const tessera::test::TemporaryDirectory directory;
  TrainingObjects objects = build_objects(load_small_recipe(directory.path(), {"--validation_dataset.num_sentences=7"}), no_variables,
                                          tessera::test::one_process_backend());
  ASSERT_EQ(objects.validation.size(), 1U);
  const data::Dataset& dataset = objects.validation[0].loader->dataset();
  double sum = 0.0;
  std::int64_t labels = 0;
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    const data::Batch batch = data::collate(std::vector{dataset.sample(index)}, {});
    const BatchTensors tensors = to_tensors(batch);
    ops::Tape tape(ops::Tape::Mode::Inference);
    sum += loss::causal_language_model(tape, *objects.model.model.decoder, tensors.inputs, tensors.labels_BT, 0.0).sum;
    labels += data::num_label_tokens(batch);
  }
  for (int pass = 0; pass < 2; ++pass) {
    const ValidationResult result = validate(objects.model, objects.validation[0], never);
    EXPECT_EQ(result.num_label_tokens, labels);
    EXPECT_NEAR(result.loss, sum / static_cast<double>(labels), 1e-5);
  }
}

/// Packs change how many rows there are, not what is measured; max_packs limits training alone.
TEST(Validation, OfPacksIsThatOfTheirDocuments) {
  const tessera::test::TemporaryDirectory directory;
  std::int64_t batches = 0;
  const auto measure = [&](const std::vector<std::string>& packing) {
    std::vector<std::string> overrides = {"--step_scheduler.local_batch_size=1", "--validation_dataset.num_sentences=9"};
    overrides.insert(overrides.end(), packing.begin(), packing.end());
    TrainingObjects objects = build_objects(load_small_recipe(directory.path(), overrides), no_variables, tessera::test::one_process_backend());
    batches = objects.validation[0].loader->steps_per_epoch();
    return validate(objects.model, objects.validation[0], never);
  };
  const ValidationResult documents = measure({});
  EXPECT_EQ(batches, 9);
  for (const char* const strategy : {"thd", "neat"}) {
    const ValidationResult packs = measure({"--packed_sequence.packed_sequence_size=64", "--packed_sequence.max_packs=1",
                                            std::string("--packed_sequence.packing_strategy=") + strategy});
    EXPECT_GT(batches, 1) << "max_packs limits training alone";
    EXPECT_LT(batches, 9);
    EXPECT_EQ(packs.num_label_tokens, documents.num_label_tokens);
    EXPECT_NEAR(packs.loss, documents.loss, 1e-6 * documents.loss);
  }
}

TEST(Validation, EndsEarlyWhenAsked) {
  const tessera::test::TemporaryDirectory directory;
  TrainingObjects objects = build_objects(load_small_recipe(directory.path()), no_variables, tessera::test::one_process_backend());
  int asked = 0;
  const ValidationResult part = validate(objects.model, objects.validation[0], [&] { return ++asked > 1; });
  EXPECT_GT(part.num_label_tokens, 0);
  EXPECT_LT(part.num_label_tokens, validate(objects.model, objects.validation[0], never).num_label_tokens);
}

}  // namespace
}  // namespace tessera::train::test
