// Checks that need the whole recipe, or the machine it runs on.
#include <set>

#include "tessera/config/hub.h"
#include "tessera/config/recipe.h"
#include "tessera/config/registry.h"

namespace tessera::config {

namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

/// "use 8 or 12": the multiples of `unit` around `value`.
std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t lower = value / unit * unit;
  return lower > 0 ? text(lower) + " or " + text(lower + unit) : text(unit);
}

}  // namespace

void validate_batch_sizes(const LoadedRecipe& loaded, std::int64_t data_parallel_size, ProblemList& problems) {
  const StepScheduler& sizes = loaded.recipe.step_scheduler;
  const std::int64_t pack = loaded.recipe.packed_sequence.packed_sequence_size;
  const std::int64_t cp_size = loaded.recipe.distributed.sizes.cp_size;
  const std::pair<std::string, std::int64_t> rows[] = {
      {"step_scheduler.local_batch_size", sizes.local_batch_size},
      {"dataloader.batch_size", loaded.recipe.dataloader.batch_size.value_or(1)},
      {"validation_dataloader.batch_size", loaded.recipe.validation_dataloader.batch_size.value_or(1)}};
  for (const auto& [key, count] : rows) {
    if (pack == 0 || count == 1) continue;
    problems.add({where(loaded.tree, key), key + ": " + text(count) + " does not go with packed_sequence", "a microbatch is one pack",
                  "use 1; packed_sequence_size says how many tokens it holds"});
  }
  if (pack % cp_size != 0) {
    problems.add({where(loaded.tree, "packed_sequence.packed_sequence_size"),
                  "packed_sequence.packed_sequence_size: " + text(pack) + " is not a multiple of cp_size (" + text(cp_size) + ")",
                  "every context-parallel rank holds the same number of tokens", "use " + nearest_multiples(pack, cp_size)});
  }
  const std::int64_t unit = sizes.local_batch_size * data_parallel_size;
  if (sizes.global_batch_size % unit == 0) return;
  problems.add({where(loaded.tree, "step_scheduler.global_batch_size"),
                "step_scheduler.global_batch_size: " + text(sizes.global_batch_size) +
                    " is not a multiple of local_batch_size · data-parallel ranks (" + text(sizes.local_batch_size) + " · " +
                    text(data_parallel_size) + ")",
                "a step is a whole number of microbatches on every rank",
                "use global_batch_size " + nearest_multiples(sizes.global_batch_size, unit) + ", or another local_batch_size"});
}

void validate_ranks(const LoadedRecipe& loaded, std::int64_t world_size, ProblemList& problems) {
  const Distributed& distributed = loaded.recipe.distributed;
  validate_parallelism(distributed, world_size, locate_in(loaded.tree), problems);
  if (const auto dp_size = data_parallel_size(distributed.sizes, world_size)) validate_batch_sizes(loaded, *dp_size, problems);
}

Locate locate_in(const Node& tree) {
  return [&tree](std::string_view path) { return where(tree, path); };
}

namespace {

/// Collects what is named and not there, each name once.
class AbsentList {
 public:
  AbsentList(const LoadedRecipe& loaded, const Environment& environment) : loaded_(loaded), environment_(environment) {}

  void check_model(const std::string& name, const std::string& path) {
    if (name.empty() || !seen_.insert(name).second || find_on_disk(name, environment_)) return;
    report(name, path, "models are read from a directory or the local hub cache; nothing is downloaded",
           "hf download " + name + " --local-dir DIR, and name DIR here");
  }

  void check_data(const Dataset& dataset, const std::string& section) {
    const std::string path = section + "." + path_key(section);
    if (dataset.tokenizer) check_model(dataset.tokenizer->path, section + ".tokenizer");
    if (dataset.kind == DatasetKind::MegatronPretraining) return;  // weights, prefixes and patterns: building the dataset tells more
    for (const std::string& name : dataset.paths) {
      if (name.find_first_of("*?[") != std::string::npos || !seen_.insert(name).second || find_data_on_disk(name, environment_)) continue;
      if (looks_like_hub_name(name) && !is_offline(environment_)) continue;  // will be downloaded
      report(name, path, "data is read from files, the local hub cache, or the hub",
             "unset HF_HUB_OFFLINE, or elsewhere: hf download --repo-type dataset " + name + " --local-dir DIR, and name DIR here");
    }
  }

  /// Every kind of dataset has its own word for where its samples are.
  std::string path_key(const std::string& section) const {
    for (const char* key : {"path_or_dataset_id", "path_or_dataset", "dataset_name", "file_pattern"}) {
      if (find_path(loaded_.tree, section + "." + key)) return key;
    }
    return "paths";
  }

  std::vector<Problem> take() { return std::move(problems_); }

 private:
  void report(const std::string& name, const std::string& path, std::string rule, std::string hub_fix) {
    const bool hub = looks_like_hub_name(name);
    problems_.push_back({where(loaded_.tree, path), path + ": " + name + (hub ? " is a Hub name and not on disk" : " is not on disk"),
                         std::move(rule), hub ? std::move(hub_fix) : "check the path; relative paths start at the working directory"});
  }

  const LoadedRecipe& loaded_;
  const Environment& environment_;
  std::set<std::string> seen_;
  std::vector<Problem> problems_;
};

/// The place of the model's path: where it stands depends on how the recipe spells it.
std::string model_path_key(const Node& tree) {
  for (const char* key : {"model.pretrained_model_name_or_path", "model.config.pretrained_model_name_or_path", "model.config.name_or_path"}) {
    if (find_path(tree, key)) return key;
  }
  return "model.config";
}

bool is_readable(const Node& tree, const std::string& section) {
  const Node* name = find_path(tree, section + "._target_");
  const Target* target = name && name->is_scalar() ? find_target(TargetKind::Dataset, name->text) : nullptr;
  return target && target->support == Support::Supported;
}

}  // namespace

std::vector<Problem> absent_resources(const LoadedRecipe& loaded, const Environment& environment) {
  const Recipe& recipe = loaded.recipe;
  AbsentList absent(loaded, environment);
  absent.check_model(recipe.model.path, model_path_key(loaded.tree));
  if (recipe.tokenizer) absent.check_model(recipe.tokenizer->path, "tokenizer");
  if (recipe.dataset && is_readable(loaded.tree, "dataset")) absent.check_data(*recipe.dataset, "dataset");
  for (const ValidationDataset& validation : recipe.validation_datasets) {
    if (is_readable(loaded.tree, validation.key)) absent.check_data(validation.dataset, validation.key);
  }
  return absent.take();
}

}  // namespace tessera::config
