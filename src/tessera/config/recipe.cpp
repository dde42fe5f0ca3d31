#include "tessera/config/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "tessera/config/interpolate.h"
#include "tessera/config/override.h"
#include "tessera/config/sections/read.h"
#include "tessera/core/text.h"

namespace tessera::config {

namespace {

/// A top-level key of a recipe: read into the struct, or not read at all. Sections that are not read are not interpolated either: a missing HF_TOKEN
/// of a launcher section is nobody's mistake here.
struct TopLevelKey {
  Key<Recipe> key;
  bool is_read = true;
};

using Reader = std::function<void(const Scope&, const Node&, Recipe&)>;

TopLevelKey reads(std::string name, Reader reader) { return {{std::move(name), std::move(reader)}, true}; }

/// The section is accepted and not read; its presence is noted once.
TopLevelKey noted(std::string name, std::string text) {
  return {{std::move(name),
           [text = std::move(text)](const Scope& scope, const Node& node, Recipe&) {
             if (!is_null(node)) scope.note(text);
           }},
          false};
}

bool is_switched_off(const Node& node) {
  if (is_null(node) || as_bool(node) == false) return true;
  for (const char* key : {"enabled", "enable"}) {
    const Node* enabled = node.find(key);
    if (enabled && as_bool(*enabled) == false) return true;
  }
  return false;
}

/// The section asks for something that is not done: refused by name, unless it is switched off.
TopLevelKey refuses(std::string name, Support support, std::string reason, std::string fix = "remove the section") {
  return {{std::move(name),
           [=](const Scope& scope, const Node& node, Recipe&) {
             if (!is_switched_off(node)) scope.unsupported(node, "", support, reason, fix);
           }},
          false};
}

TopLevelKey tracker(std::string name) {
  return {{std::move(name),
           [](const Scope& scope, const Node& node, Recipe&) {
             if (!is_switched_off(node)) scope.note("not supported yet; metrics are written to training.jsonl and as TensorBoard files");
           }},
          false};
}

void read_seed(const Scope& scope, const Node& node, Recipe& recipe) {
  std::int64_t seed = 0;
  if (is_null(node) || !read_value(scope, node, seed)) return;
  if (seed < 0) return scope.mistake(node, shown(scope, node) + " is negative", "a seed is a whole number from 0", "use for example 42");
  recipe.seed = static_cast<std::uint64_t>(seed);
}

void read_recipe_class(const Scope& scope, const Node& node, Recipe& recipe) {
  const Target* target = read_target(scope, node, TargetKind::Recipe);
  if (target && target->support == Support::Supported && node.is_map()) read_section(scope, node, {target_key<Recipe>()}, recipe);
  if (target && target->value == static_cast<int>(RecipeTarget::Benchmark)) {
    scope.note("trains as TrainFinetuneRecipeForNextTokenPrediction does; the log has the rates that upstream's benchmark prints");
  }
}

void read_rng(const Scope& scope, const Node& node, Recipe& recipe) {
  if (is_null(node)) return;
  read_target(scope, node, TargetKind::Rng);
  const Keys<Recipe> keys = {{"seed", read_seed}, accepted<Recipe>("ranked", Type::Bool), target_key<Recipe>()};
  read_section(scope, node, keys, recipe);
  scope.note("only its seed is taken, when there is no `seed`; every random number is a function of it and of what the number is for");
}

/// The loss of layers that predict further tokens. AutoModel takes its weight from the model where the section does not say it.
void read_mtp(const Scope& scope, const Node& node, Recipe&) {
  if (is_switched_off(node) || !check_type(scope, node, Type::Map)) return;
  const std::string reason = "layers that predict further tokens are left out";
  const Node* factor = node.find("scaling_factor");
  const Scope at = scope.child("scaling_factor");
  if (factor && !check_type(at, *factor, Type::Number)) return;
  if (factor && as_double(*factor).value_or(0) > 0)
    return at.unsupported(*factor, shown(at, *factor), Support::NotSupported, reason, "use 0, or remove the section");
  scope.note("has no effect: " + reason);
}

template <class Section>
Reader table(Section Recipe::* member, Keys<Section> keys) {
  return section("", member, std::move(keys)).read;
}
template <class Section>
Reader function(void (*read)(const Scope&, const Node&, Section&), Section Recipe::* member) {
  return [=](const Scope& scope, const Node& node, Recipe& recipe) {
    if (!is_null(node)) read(scope, node, recipe.*member);
  };
}
template <class Section>
Reader function(void (*read)(const Scope&, const Node&, Section&), std::optional<Section> Recipe::* member) {
  return [=](const Scope& scope, const Node& node, Recipe& recipe) {
    if (!is_null(node)) read(scope, node, (recipe.*member).emplace());
  };
}

void read_training_dataset(const Scope& scope, const Node& node, Recipe& recipe) {
  if (is_null(node)) return;
  Dataset dataset;
  if (read_dataset(scope, node, dataset)) recipe.dataset = std::move(dataset);
}

std::vector<TopLevelKey> read_keys() {
  using R = Recipe;
  return {
      reads("recipe", read_recipe_class),
      reads("seed", read_seed),
      reads("step_scheduler", function(read_step_scheduler, &R::step_scheduler)),
      reads("model", function(read_model, &R::model)),
      reads("tokenizer", function(read_tokenizer, &R::tokenizer)),
      reads("distributed", function(read_distributed, &R::distributed)),
      reads("dataset", read_training_dataset),
      reads("dataloader", function(read_dataloader, &R::dataloader)),
      reads("validation_dataloader", function(read_validation_dataloader, &R::validation_dataloader)),
      reads("packed_sequence", table(&R::packed_sequence, packed_sequence_keys())),
      reads("optimizer", function(read_optimizer, &R::optimizer)),
      reads("lr_scheduler", function(read_lr_scheduler, &R::lr_scheduler)),
      reads("loss_fn", function(read_loss, &R::loss_fn)),
      reads("clip_grad_norm", table(&R::clip_grad_norm, clip_grad_norm_keys())),
      reads("checkpoint", function(read_checkpoint, &R::checkpoint)),
      reads("dist_env", table(&R::dist_env, dist_env_keys())),
      reads("logging", table(&R::logging, logging_keys())),
      reads("freeze_config", table(&R::freeze_config, freeze_config_keys())),
      reads("peft", [](const Scope& scope, const Node& node, Recipe&) { check_peft(scope, node); }),
      reads("moe_metrics", table(&R::moe_metrics, moe_metrics_keys())),
      reads("rng", read_rng),
      reads("mtp", read_mtp),
  };
}

std::vector<TopLevelKey> unread_keys() {
  constexpr auto yet = Support::NotSupportedYet;
  constexpr auto no = Support::NotSupported;
  const std::string launcher = "has no effect: Tessera submits no jobs; it trains where it is started";
  const std::string distillation = "distillation from a teacher model is not implemented";
  return {
      noted("ci", "read only by the tests that recipes come with"),
      noted("compile", "has no effect: nothing is compiled at run time"),
      noted("nvtx", "has no effect: there are no profiler marks"),
      noted("autocast", "has no effect: model.torch_dtype decides the precision"),
      noted("benchmark", "has no effect: no profiler is attached and nothing is left out of the averages"),
      noted("prewarm", "has no effect: there are no kernels to tune before the first step"),
      noted("mfu", "has no effect: the log always has it"),
      noted("sdpa_method", "has no effect: there is one attention, which chooses its own kernel"),
      noted("skypilot", launcher),
      noted("slurm", launcher),
      noted("k8s", launcher),
      noted("nemo_run", launcher),
      noted("launcher", launcher),
      tracker("wandb"),
      tracker("mlflow"),
      tracker("comet"),
      refuses("quantization", no, "models train in float32 or bfloat16"),
      refuses("fp8", no, "training in FP8 needs kernels for it", "remove the section; the model then trains in bfloat16"),
      refuses("qat", no, "quantisation is not simulated in training"),
      refuses("neftune", yet, "embeddings get no noise"),
      refuses("longalign", yet, "losses are not reweighted by pack"),
      refuses("ema", yet, "no moving average of the weights is kept"),
      refuses("teacher_model", no, distillation),
      refuses("teacher_distributed", no, distillation),
      refuses("offload_teacher_model", no, distillation),
      refuses("separate_meshes", no, distillation),
      refuses("kd_ratio", no, distillation),
      refuses("kd_loss_fn", no, distillation),
      refuses("processor", no, "Tessera trains text models; images and sound are not read"),
      refuses("embedding_row_repair", no, "weights are trained as they are loaded"),
      refuses("tool_call_eval", no, "tool calls are not evaluated during training"),
      refuses("autopipeline", no, "an older spelling of distributed.pipeline", "move its keys to distributed.pipeline"),
      refuses("parallelizer", no, "an older spelling of distributed.moe and distributed.activation_checkpointing", "move its keys there"),
      refuses("distributed_config", no, "an older spelling of distributed", "move its keys to distributed"),
  };
}

const std::vector<TopLevelKey>& top_level_keys() {
  static const std::vector<TopLevelKey> keys = [] {
    std::vector<TopLevelKey> all = read_keys();
    for (TopLevelKey& key : unread_keys()) all.push_back(std::move(key));
    return all;
  }();
  return keys;
}

const TopLevelKey* find_key(std::string_view name) {
  for (const TopLevelKey& candidate : top_level_keys()) {
    if (candidate.key.name == name) return &candidate;
  }
  return nullptr;
}

/// "validation_dataset" is "default", "validation_dataset_foo" is "foo"; nothing for other keys.
std::optional<std::string> validation_name(std::string_view key) {
  constexpr std::string_view prefix = "validation_dataset";
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  if (key.empty()) return "default";
  if (std::string_view("_-.").find(key.front()) == std::string_view::npos || key.size() == 1) return std::nullopt;
  return std::string(key.substr(1));
}

void read_validation_dataset(const Scope& scope, const Entry& entry, std::string name, Recipe& recipe) {
  if (is_null(entry.value)) return;
  ValidationDataset validation{std::move(name), entry.key, {}};
  if (read_dataset(scope.child(entry.key), entry.value, validation.dataset)) recipe.validation_datasets.push_back(std::move(validation));
}

void report_unknown_section(const Scope& scope, const Entry& entry) {
  std::vector<std::string> names = {"validation_dataset"};
  for (const TopLevelKey& known : top_level_keys()) names.push_back(known.key.name);
  report_unknown_key(scope, entry, names);
}

/// Keys such as `_template: &template …` only hold anchors for aliases.
bool holds_anchors(const Entry& entry) { return entry.key.starts_with('_') || entry.key.starts_with("x-"); }

void read_entry(const Scope& scope, const Entry& entry, Recipe& recipe) {
  if (const TopLevelKey* known = find_key(entry.key)) {
    known->key.read(scope.child(entry.key), entry.value, recipe);
  } else if (auto name = validation_name(entry.key)) {
    read_validation_dataset(scope, entry, std::move(*name), recipe);
  } else if (!holds_anchors(entry)) {
    report_unknown_section(scope, entry);
  }
}

/// Another kind of training has other sections and keys, none of which would be mistakes there.
bool is_another_kind(const Node& tree) {
  const Node* name = tree.find("recipe");
  if (name && name->is_map()) name = name->find("_target_");
  const Target* target = name && name->is_scalar() ? find_target(TargetKind::Recipe, name->text) : nullptr;
  return target && target->support != Support::Supported;
}

/// The set whose loss LOWEST_VAL follows has to be one of the recipe's.
void check_best_metric(const Scope& scope, const Node& tree) {
  std::vector<std::string> names;
  for (const Entry& entry : tree.entries) {
    if (const auto name = is_null(entry.value) ? std::nullopt : validation_name(entry.key)) names.push_back(*name);
  }
  const Node* checkpoint = tree.find("checkpoint");
  const Node* key = checkpoint ? checkpoint->find("best_metric_key") : nullptr;
  const bool given = key && key->is_scalar() && !is_null(*key);
  const std::string wanted = given ? key->text : Checkpoint{}.best_metric_key;
  if (std::ranges::find(names, wanted) != names.end() || (!given && names.size() < 2)) return;
  const Scope at = scope.child("checkpoint").child("best_metric_key");
  if (names.empty()) return at.note("has no effect: there is no validation_dataset");
  const std::string list = fmt::format("{}", fmt::join(names, ", "));
  if (!given) return at.note("LOWEST_VAL is not kept: no validation set is named default; choose among " + list);
  at.mistake(*key, "unknown validation set " + shown(at, *key), "the validation sets are " + list + " (validation_dataset is default)",
             did_you_mean(wanted, names, "use one of these"));
}

/// Weights are compared by what was measured of them, so a checkpoint that is saved between two validations is not.
void note_unmeasured_checkpoints(const Scope& scope, const Recipe& recipe) {
  const std::optional<std::int64_t>&saved = recipe.step_scheduler.ckpt_every_steps, &measured = recipe.step_scheduler.val_every_steps;
  if (!recipe.checkpoint.enabled || recipe.validation_datasets.empty()) return;
  const bool by_steps = saved && measured && *saved % *measured != 0 && *measured % *saved != 0;
  const bool only_saved_by_steps = saved && !measured && !recipe.step_scheduler.save_checkpoint_every_epoch;
  const bool only_measured_by_steps = !saved && measured;
  if (!by_steps && !only_saved_by_steps && !only_measured_by_steps) return;
  const std::string where = by_steps ? "every " + std::to_string(std::lcm(*saved, *measured)) + " steps"
                                     : std::string("where an epoch ends on a multiple of ") + (saved ? "ckpt_every_steps" : "val_every_steps");
  scope.note("validations and checkpoints meet " + where + ": LOWEST_VAL is chosen among these checkpoints and the last");
}

/// What reading gathers: the typed recipe, what was found, and which sections have mistakes.
class RecipeReader {
 public:
  RecipeReader(LoadedRecipe& loaded, Findings& findings) : loaded_(loaded), findings_(findings), scope_{findings, ""} {}

  void interpolate_sections(const Environment& environment) {
    for (Entry& entry : loaded_.tree.entries) {
      const TopLevelKey* known = find_key(entry.key);
      if (known && !known->is_read) continue;
      watched(entry.key, [&] { interpolate(entry.value, environment, findings_.mistakes); });
    }
  }

  void read() {
    const Node& tree = loaded_.tree;
    if (is_another_kind(tree)) return read_another_kind();
    // rng first: `seed`, wherever it stands, wins over rng.seed.
    for (const bool rng : {true, false}) {
      for (const Entry& entry : tree.entries) {
        if ((entry.key == "rng") == rng) watched(entry.key, [&] { read_entry(scope_, entry, loaded_.recipe); });
      }
    }
    watched("model", [&] { require("model", "a recipe says what is trained"); });
    // Refused already, with its place.
    const Node* nested = find_path(tree, "dataloader.dataset");
    if (!nested || is_null(*nested)) watched("dataset", [&] { require("dataset", "a recipe says what it is trained on"); });
    watched("checkpoint", [&] { check_best_metric(scope_, tree); });
    if (loaded_.is_read("step_scheduler")) note_unmeasured_checkpoints(scope_.child("step_scheduler"), loaded_.recipe);
  }

 private:
  /// Does a part of the work on a section, and remembers whether it found mistakes.
  template <class Work>
  void watched(const std::string& section, const Work& work) {
    const std::size_t mistakes = findings_.mistakes.problems().size(), unknown_keys = findings_.num_unknown_keys;
    work();
    const std::size_t found = findings_.mistakes.problems().size() - mistakes;
    if (found == 0) return;
    const bool only_misspelt = found == findings_.num_unknown_keys - unknown_keys && !loaded_.half_read.contains(section);
    if (only_misspelt)
      loaded_.misspelt.insert(section);
    else
      loaded_.misspelt.erase(section);
    loaded_.half_read.insert(section);
  }

  void read_another_kind() {
    read_recipe_class(scope_.child("recipe"), *loaded_.tree.find("recipe"), loaded_.recipe);
    for (const TopLevelKey& key : top_level_keys()) loaded_.half_read.insert(key.key.name);
  }

  void require(const std::string& section, std::string rule) {
    const Node* node = loaded_.tree.find(section);
    if (node && !is_null(*node)) return;
    const std::string source = loaded_.tree.position.source ? *loaded_.tree.position.source : "";
    findings_.mistakes.add({source, section + " is missing", std::move(rule), "add a " + section + " section"});
  }

  LoadedRecipe& loaded_;
  Findings& findings_;
  Scope scope_;
};

LoadedRecipe type_recipe(Node tree, const Environment& environment, Findings findings) {
  if (!tree.is_map()) {
    findings.mistakes.add({to_string(tree.position), "a recipe is a map of sections", "each line at the left edge is a section: key: value",
                           "begin with model: and dataset:"});
    findings.mistakes.throw_if_any();
  }
  LoadedRecipe loaded;
  loaded.tree = std::move(tree);
  RecipeReader reader(loaded, findings);
  reader.interpolate_sections(environment);
  reader.read();
  loaded.mistakes = findings.mistakes.problems();
  loaded.notes = std::move(findings.notes);
  loaded.unsupported = std::move(findings.unsupported);
  return loaded;
}

LoadedRecipe without_mistakes(LoadedRecipe loaded) {
  if (!loaded.mistakes.empty()) throw UserError(std::move(loaded.mistakes));
  return loaded;
}

}  // namespace

LoadedRecipe read_recipe(const std::filesystem::path& path, std::span<const std::string> overrides, const Environment& environment) {
  Findings findings;
  Node tree = read_yaml_file(path);
  apply_overrides(tree, parse_overrides(overrides, findings.mistakes), findings.mistakes);
  return type_recipe(std::move(tree), environment, std::move(findings));
}

LoadedRecipe load_recipe(const std::filesystem::path& path, std::span<const std::string> overrides, const Environment& environment) {
  return without_mistakes(read_recipe(path, overrides, environment));
}

LoadedRecipe load_recipe(Node tree, const Environment& environment) { return without_mistakes(type_recipe(std::move(tree), environment, {})); }

std::int64_t local_batch_size(const Recipe& recipe) { return recipe.dataloader.batch_size.value_or(recipe.step_scheduler.local_batch_size); }

}  // namespace tessera::config
