#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tessera/config/node.h"
#include "tessera/config/parallelism.h"
#include "tessera/config/sections/data.h"
#include "tessera/config/sections/distributed.h"
#include "tessera/config/sections/model.h"
#include "tessera/config/sections/output.h"
#include "tessera/config/sections/training.h"
#include "tessera/core/environment.h"
#include "tessera/core/error.h"

namespace tessera::config {

/// A NeMo AutoModel recipe, typed. Everything absent in the file has its default here.
struct Recipe {
  std::uint64_t seed = 42;  ///< `seed`, else `rng.seed`
  StepScheduler step_scheduler;
  Model model;
  std::optional<Tokenizer> tokenizer;  ///< of datasets that name none; absent: the model's
  Distributed distributed;
  std::optional<Dataset> dataset;  ///< always present after load_recipe without unsupported problems
  std::vector<ValidationDataset> validation_datasets;
  Dataloader dataloader;
  Dataloader validation_dataloader;
  PackedSequence packed_sequence;
  Optimizer optimizer;
  std::optional<LrScheduler> lr_scheduler;  ///< absent: the learning rate is constant
  Loss loss_fn;
  ClipGradNorm clip_grad_norm;
  Checkpoint checkpoint;
  DistEnv dist_env;
  Logging logging;
  FreezeConfig freeze_config;
  MoeMetrics moe_metrics;
};

struct LoadedRecipe {
  Node tree;  ///< the file with overrides applied and placeholders resolved; print it with print_yaml
  Recipe recipe;
  std::vector<std::string> notes;    ///< accepted but without effect here, each once: "ci: …"
  std::vector<Problem> unsupported;  ///< asked for and "not supported (yet)": `check` lists them, `train` refuses
  std::vector<Problem> mistakes;     ///< wrong types and values, unknown keys and targets, variables that are not set
  std::set<std::string> half_read;   ///< the sections with mistakes: their part of `recipe` is not what was meant
  std::set<std::string> misspelt;    ///< those of them whose only mistakes are unknown keys: the rest was read

  bool is_read(const std::string& section) const { return !half_read.contains(section); }
  bool is_read_but_for_unknown_keys(const std::string& section) const { return is_read(section) || misspelt.contains(section); }
};

/// Reads a recipe, applies command-line overrides ("--a.b", "VALUE", "--a.b=VALUE", "--flag": see override.h), interpolates and types it, as far as
/// its mistakes let it: they come with what was read, so that the caller can add further problems. UserError for what is not a map of
/// sections, malformed YAML included.
LoadedRecipe read_recipe(const std::filesystem::path& path, std::span<const std::string> overrides, const Environment& environment);
/// The same of a recipe without mistakes: throws UserError with all of them.
LoadedRecipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides, const Environment& environment);
/// The same for a tree already read (the file's part is done): for tests and tools.
LoadedRecipe load_recipe(Node tree, const Environment& environment);

/// Samples per microbatch and data-parallel rank: dataloader.batch_size, else step_scheduler.local_batch_size.
std::int64_t local_batch_size(const Recipe& recipe);

/// Packs: a microbatch is one, and cp_size divides them. Adds every violation.
void validate_packing(const LoadedRecipe& loaded, ProblemList& problems);
/// global_batch_size = local_batch_size · data_parallel_size · (whole number), or a problem.
void validate_batch_sizes(const LoadedRecipe& loaded, std::int64_t data_parallel_size, ProblemList& problems);
/// Places of a recipe's keys; `tree` must outlive it.
Locate locate_in(const Node& tree);

/// One problem for each model, tokenizer and dataset that is named like a hub repository and is neither a path nor in the local hub cache. Sections
/// with mistakes are passed over.
std::vector<Problem> absent_resources(const LoadedRecipe& loaded, const Environment& environment);

}  // namespace tessera::config
