// Checks that need the whole recipe, or the machine it runs on.
#include <set>

#include "tessera/config/hub.h"
#include "tessera/config/recipe.h"
#include "tessera/config/registry.h"

namespace tessera::config {

namespace {

/// "use 8 or 12": the multiples of `unit` around `value`.
std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t lower = value / unit * unit;
  return lower > 0 ? std::to_string(lower) + " or " + std::to_string(lower + unit) : std::to_string(unit);
}

}  // namespace

void validate_packing(const LoadedRecipe& loaded, ProblemList& problems) {
  if (!loaded.is_read("packed_sequence")) return;
  const Recipe& recipe = loaded.recipe;
  const std::int64_t pack = recipe.packed_sequence.packed_sequence_size;
  const std::int64_t cp_size = recipe.distributed.sizes.cp_size;
  const auto one_row = [&](const std::string& section, const std::string& key, std::int64_t count) {
    if (pack == 0 || count == 1 || !loaded.is_read(section)) return;
    const std::string path = section + "." + key;
    problems.add({where(loaded.tree, path), path + ": " + std::to_string(count) + " does not go with packed_sequence", "a microbatch is one pack",
                  "use 1; packed_sequence_size says how many tokens it holds"});
  };
  one_row("step_scheduler", "local_batch_size", recipe.step_scheduler.local_batch_size);
  one_row("dataloader", "batch_size", recipe.dataloader.batch_size.value_or(1));
  one_row("validation_dataloader", "batch_size", recipe.validation_dataloader.batch_size.value_or(1));
  if (pack % cp_size == 0 || !loaded.is_read_but_for_unknown_keys("distributed")) return;
  problems.add({where(loaded.tree, "packed_sequence.packed_sequence_size"),
                "packed_sequence.packed_sequence_size: " + std::to_string(pack) + " is not a multiple of cp_size (" + std::to_string(cp_size) + ")",
                "every context-parallel rank holds the same number of tokens", "use " + nearest_multiples(pack, cp_size)});
}

void validate_batch_sizes(const LoadedRecipe& loaded, std::int64_t data_parallel_size, ProblemList& problems) {
  if (!loaded.is_read("step_scheduler") || !loaded.is_read("dataloader")) return;
  const std::int64_t global = loaded.recipe.step_scheduler.global_batch_size, local = local_batch_size(loaded.recipe);
  const std::int64_t unit = local * data_parallel_size;
  if (global % unit == 0) return;
  // Who set the loader's own size meant that one.
  const bool of_loader = loaded.recipe.dataloader.batch_size.has_value();
  const std::string key = of_loader ? "dataloader.batch_size" : "step_scheduler.global_batch_size";
  const std::string ranks = std::to_string(data_parallel_size) + ")";
  const std::string what =
      of_loader ? std::to_string(local) + " · data-parallel ranks (" + ranks + " does not divide global_batch_size (" + std::to_string(global) + ")"
                : std::to_string(global) + " is not a multiple of local_batch_size · data-parallel ranks (" + std::to_string(local) + " · " + ranks;
  problems.add({where(loaded.tree, key), key + ": " + what, "a step is a whole number of microbatches on every rank",
                "use global_batch_size " + nearest_multiples(global, unit) + ", or another " + (of_loader ? "batch_size" : "local_batch_size")});
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
    report(name, path, std::string(kModelsAreLocal), "hf download " + name + " --local-dir DIR, and name DIR here");
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

bool is_readable(const LoadedRecipe& loaded, const std::string& section) {
  if (!loaded.is_read(section)) return false;
  const Node* name = find_path(loaded.tree, section + "._target_");
  const Target* target = name && name->is_scalar() ? find_target(TargetKind::Dataset, name->text) : nullptr;
  return target && target->support == Support::Supported;
}

}  // namespace

std::vector<Problem> absent_resources(const LoadedRecipe& loaded, const Environment& environment) {
  const Recipe& recipe = loaded.recipe;
  AbsentList absent(loaded, environment);
  if (loaded.is_read("model")) absent.check_model(recipe.model.path, model_path_key(loaded.tree));
  if (recipe.tokenizer && loaded.is_read("tokenizer")) absent.check_model(recipe.tokenizer->path, "tokenizer");
  if (recipe.dataset && is_readable(loaded, "dataset")) absent.check_data(*recipe.dataset, "dataset");
  for (const ValidationDataset& validation : recipe.validation_datasets) {
    if (is_readable(loaded, validation.key)) absent.check_data(validation.dataset, validation.key);
  }
  return absent.take();
}

}  // namespace tessera::config
