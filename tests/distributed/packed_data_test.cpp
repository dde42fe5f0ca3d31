// Packs of real text, from a recipe's files through tokenizer, packing, loader and model: however the ranks share the work, they train on what one
// process trains on.
#include <fmt/format.h>

#include <set>

#include "distributed/ranks.h"
#include "support/support.h"
#include "tessera/comm/values.h"
#include "tessera/config/recipe.h"
#include "tessera/train/objects.h"
#include "tessera/train/step.h"
#include "tessera/train/validation.h"

namespace tessera::test {
namespace {

constexpr std::int64_t kSteps = 4;

/// Where the text is, and what cuts it into tokens.
struct Source {
  std::filesystem::path pairs;      ///< JSONL of question and answer
  std::filesystem::path tokenizer;  ///< a directory or a tokenizer.json
  std::int64_t vocab_size = 0;
  std::int64_t pack = 0;  ///< tokens; some pairs are longer
};

struct Losses {
  std::vector<double> of_steps, norms;
  std::vector<std::int64_t> labels;  ///< of each step
  train::ValidationResult validation;
};

config::LoadedRecipe recipe_of(const Source& source, const std::filesystem::path& directory, const std::string& strategy, const std::string& split) {
  write_file(directory / "recipe.yaml", fmt::format(R"(seed: 3
step_scheduler: {{global_batch_size: 4, local_batch_size: 1, max_steps: {}}}
model:
  _target_: from_config
  config: {{model_type: llama, vocab_size: {}, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, num_attention_heads: 4,
           num_key_value_heads: 2, max_position_embeddings: 4096, tie_word_embeddings: true}}
  torch_dtype: float32
tokenizer: {{pretrained_model_name_or_path: {}}}
dataset: {{_target_: instruction, path_or_dataset_id: {}, column_mapping: {{question: question, answer: answer}}, limit_dataset_samples: 400}}
validation_dataset: {{_target_: instruction, path_or_dataset_id: {}, split: "train[:20]", column_mapping: {{question: question, answer: answer}}}}
packed_sequence: {{packed_sequence_size: {}, packing_strategy: {}, drop_long_samples: true}}
optimizer: {{_target_: adamw, lr: 1.0e-3, eps: 1.0e-6}}
distributed: {{{}}}
)",
                                                    kSteps, source.vocab_size, source.tokenizer.string(), source.pairs.string(),
                                                    source.pairs.string(), source.pack, strategy, split));
  return config::load_recipe(directory / "recipe.yaml", {}, [](std::string_view) { return std::optional<std::string>(); });
}

/// Trains a few steps as `tessera train` does. Every rank of the backend calls it.
Losses train_on_packs(const config::LoadedRecipe& recipe, comm::Backend& backend) {
  train::TrainingObjects objects = train::build_objects(recipe, [](std::string_view) { return std::optional<std::string>(); }, backend);
  Losses losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const data::StepBatches& batches = objects.loader->next();
    for (const data::Batch& batch : batches.microbatches) EXPECT_TRUE(batch.rows == 1 && batch.numbers[0] >= 0);
    const train::StepResult done = train::training_step(objects.model, *objects.optimizer, batches.microbatches, static_cast<std::uint64_t>(step),
                                                        {.learning_rate = 1e-3, .weight_decay = 0.1}, 1.0);
    losses.of_steps.push_back(done.gradients.loss);
    losses.norms.push_back(done.gradient_norm);
    losses.labels.push_back(done.gradients.num_label_tokens);
  }
  losses.validation = train::validate(objects.model, objects.validation.at(0), [] { return false; });
  return losses;
}

void expect_same(const Losses& found, const Losses& expected) {
  EXPECT_EQ(found.labels, expected.labels) << "other documents were trained on";
  EXPECT_EQ(found.validation.num_label_tokens, expected.validation.num_label_tokens);
  EXPECT_NEAR(found.validation.loss, expected.validation.loss, 1e-5 * expected.validation.loss);
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(found.of_steps[step], expected.of_steps[step], 1e-5 * expected.of_steps[step]) << "step " << step;
    EXPECT_NEAR(found.norms[step], expected.norms[step], 1e-4 * expected.norms[step]) << "step " << step;
  }
}

/// How this number of ranks can share the work.
std::vector<std::string> packed_splits() {
  if (backend().world_size() == 2) return {"strategy: fsdp2", "strategy: ddp", "cp_size: 2", "tp_size: 2", "pp_size: 2, pipeline: {}"};
  return {"cp_size: 2", "tp_size: 2, cp_size: 2", "pp_size: 2, cp_size: 2, pipeline: {}", "strategy: megatron_fsdp"};
}

void expect_packs_alike(const Source& source, const std::set<std::string>& strategies) {
  const std::unique_ptr<comm::Backend> self = comm::self_backend();
  const TemporaryDirectory directory;
  for (const std::string& strategy : strategies) {
    const Losses expected = train_on_packs(recipe_of(source, directory.path(), strategy, ""), *self);
    EXPECT_LT(expected.of_steps.back(), expected.of_steps.front()) << "nothing was learnt";
    for (const std::string& split : packed_splits()) {
      SCOPED_TRACE(strategy + " " + split);
      expect_same(train_on_packs(recipe_of(source, directory.path(), strategy, split), backend()), expected);
    }
  }
}

RANKS_TEST(PackedData, TheQuickstartsText, 2, 4) {
  expect_packs_alike({test_data("../../examples/quickstart/facts.jsonl"), test_data("data/tokenizer"), 320, 256}, {"thd", "neat"});
}

void expect_questions_packed_alike(const std::string& tokenizer, std::int64_t vocab_size) {
  const Source source{shared_data("data/sft/gsm8k_train.jsonl"), shared_data("data/tokenizers/" + tokenizer), vocab_size, 512};
  TESSERA_SKIP_WITHOUT(source.pairs);
  TESSERA_SKIP_WITHOUT(source.tokenizer);
  expect_packs_alike(source, {"neat"});
}

RANKS_TEST(PackedData, Questions, 2, 4) { expect_questions_packed_alike("bpe_digits_1500.tokenizer.json", 1536); }
RANKS_TEST(PackedData, LONG_QuestionsInQwensTokens, 2, 4) { expect_questions_packed_alike("qwen3.tokenizer.json", 151936); }

}  // namespace
}  // namespace tessera::test
