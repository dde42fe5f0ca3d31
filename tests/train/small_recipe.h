#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/support.h"
#include "tessera/config/recipe.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

/// What the tests of whole runs share: a recipe of a two-layer gpt2 with dropout on random sentences.
namespace tessera::train::test {
using namespace tessera::test;

inline std::optional<std::string> no_variables(std::string_view) { return std::nullopt; }

/// 44 sentences, 4 to a step: 11 steps an epoch, 22 in all. Everything is written below `directory`.
inline std::string small_recipe(const std::filesystem::path& directory) {
  return fmt::format(R"(seed: 5
step_scheduler: {{global_batch_size: 4, local_batch_size: 2, num_epochs: 2, ckpt_every_steps: null, save_checkpoint_every_epoch: false}}
model:
  _target_: from_config
  config: {{model_type: gpt2, n_embd: 64, n_layer: 2, n_head: 4, n_positions: 64, vocab_size: 80,
           attn_pdrop: 0.1, resid_pdrop: 0.1, embd_pdrop: 0.1}}
  torch_dtype: float32
dataset: {{_target_: mock_unpacked, num_sentences: 44, mean_len: 14, std_len: 6, vocab_size: 80, max_sentence_len: 30}}
validation_dataset: {{_target_: mock_unpacked, num_sentences: 6, vocab_size: 80, seed: 9, max_sentence_len: 30}}
optimizer: {{_target_: adamw, lr: 3.0e-3, weight_decay: 0.1}}
lr_scheduler: {{lr_decay_style: cosine, lr_warmup_steps: 3, lr_decay_steps: 22}}
checkpoint: {{checkpoint_dir: {0}/checkpoints, save_consolidated: false}}
logging: {{directory: {0}/logs}}
)",
                     directory.string());
}

/// The small recipe as a user would load it: from a file, with overrides ("--a.b=VALUE").
inline config::LoadedRecipe load_small_recipe(const std::filesystem::path& directory, const std::vector<std::string>& overrides = {}) {
  tessera::test::write_file(directory / "recipe.yaml", small_recipe(directory));
  return config::load_recipe(directory / "recipe.yaml", overrides, no_variables);
}

/// The lines of a file of metrics.
inline std::vector<Json> json_lines(const std::filesystem::path& path) {
  std::vector<Json> lines;
  for (const std::string& line : split(tessera::test::read_file(path), '\n'))
    if (!line.empty()) lines.push_back(Json::parse(line));
  return lines;
}

}  // namespace tessera::train::test
