#include "tessera/train/examine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/config/hub.h"
#include "tessera/config/interpolate.h"
#include "tessera/core/writable.h"
#include "tessera/data/dataset/build.h"
#include "tessera/data/loader_state.h"
#include "tessera/formats/tensor_source.h"
#include "tessera/mesh/mesh_sizes.h"
#include "tessera/model/load.h"
#include "tessera/model/parameter_table.h"
#include "tessera/parallel/pipeline/lowering.h"
#include "tessera/parallel/tensor/plan.h"
#include "tessera/plan/simulate.h"
#include "tessera/train/lr_schedule.h"
#include "tessera/train/objects.h"
#include "tessera/train/recipe_data.h"
#include "tessera/train/restore_point.h"
#include "tessera/train/routing.h"

namespace tessera::train {
namespace {

void append(std::vector<Problem>& all, const std::vector<Problem>& more) { all.insert(all.end(), more.begin(), more.end()); }

/// A recipe that asks for dtypes that nothing here computes in is not to be trained in silence.
void refuse_other_dtypes(const config::LoadedRecipe& loaded, const ModelPlan& plan, std::vector<Problem>& problems) {
  const config::Distributed& distributed = loaded.recipe.distributed;
  const auto refuse = [&](const std::string& key, DType asked, const std::string& rule, const std::string& fix) {
    problems.push_back({config::where(loaded.tree, key), fmt::format("{}: {} is not supported", key, torch_name(asked)), rule, fix});
  };
  if (const auto asked = distributed.fsdp2.autocast_dtype; asked && *asked != plan.dtype)
    refuse("distributed.autocast_dtype", *asked, fmt::format("the whole model computes in one dtype, here {}", torch_name(plan.dtype)),
           fmt::format("set model.torch_dtype: {} (masters stay fp32), or leave this out", torch_name(*asked)));
  const auto head = distributed.moe && distributed.sizes.ep_size > 1 ? distributed.moe->lm_head_precision : std::nullopt;
  if (!head || *head == plan.dtype) return;
  if (*head != DType::F32)
    refuse("distributed.moe.lm_head_precision", *head, "the head computes as the model does, or in float32", "use float32, or leave this out");
  else if (plan.spec.tie_word_embeddings)
    refuse("distributed.moe.lm_head_precision", *head, "the head is the embedding, which computes as the model does",
           "leave this out, or set model.torch_dtype: float32");
}

/// What a pipeline section may ask for and is not done.
void refuse_pipeline_options(const config::LoadedRecipe& loaded, DType compute, std::vector<Problem>& problems) {
  const config::Pipeline& pipeline = *loaded.recipe.distributed.pipeline;
  const auto refuse = [&](const std::string& key, const std::string& value, const std::string& rule, const std::string& fix) {
    const std::string path = "distributed.pipeline." + key;
    problems.push_back({config::where(loaded.tree, path), fmt::format("{}: {} is not supported", path, value), rule, fix});
  };
  if (pipeline.scale_grads_in_schedule)
    refuse("scale_grads_in_schedule", "true", "gradients are those of the loss per label of the whole step; nothing is left to scale", "use false");
  if (pipeline.dtype && *pipeline.dtype != compute)
    refuse("dtype", std::string(torch_name(*pipeline.dtype)),
           fmt::format("what stages hand over is in the dtype that the model computes in, {}", torch_name(compute)), "leave it out");
}

/// Stages and schedule of the recipe's steps.
std::optional<parallel::PipelinePlan> examine_pipeline(const config::LoadedRecipe& loaded, const ModelPlan& plan, std::int64_t dp_size,
                                                       ProblemList& problems) {
  const config::Recipe& recipe = loaded.recipe;
  if (recipe.distributed.sizes.pp_size == 1 || !recipe.distributed.pipeline) return std::nullopt;
  const config::Locate locate = config::locate_in(loaded.tree);
  const auto num_microbatches = pipeline::num_pipeline_microbatches(*recipe.distributed.pipeline, recipe.step_scheduler.global_batch_size,
                                                                    config::local_batch_size(recipe), dp_size, locate, problems);
  if (!num_microbatches) return std::nullopt;
  auto pipeline = parallel::plan_pipeline(recipe.distributed, plan.spec, *num_microbatches, locate, problems);
  if (!pipeline || recipe.distributed.pipeline->pp_schedule_csv.empty()) return pipeline;
  // Our own schedules are known to end; somebody else's is run through once.
  try {
    plan::simulate(pipeline::lower(pipeline->schedule, pipeline->stages.placement), pipeline->stages.placement);
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems())
      problems.add({config::where(loaded.tree, "distributed.pipeline.pp_schedule_csv"), "distributed.pipeline.pp_schedule_csv: " + problem.what,
                    problem.rule, problem.fix});
  }
  return pipeline;
}

bool is_listed_as_absent(const config::Model& model, const Environment& environment) {
  return !model.path.empty() && !config::find_on_disk(model.path, environment);
}

/// Of the headers alone: tensors that are missing, surplus or of another shape, files that are cut short.
void check_weights_on_disk(const ModelPlan& plan) {
  if (plan.pretrained && plan.directory) model::check_weights(model::parameter_table(plan.spec), *formats::open_huggingface_source(*plan.directory));
}

/// What training would refuse whatever is in the files. Mock data have none: they are made. A problem begins with its key.
void check_datasets(const config::LoadedRecipe& loaded, const model::ModelSpec& spec, ProblemList& problems) {
  const data::DatasetContext context{.tokenizer = {}, .context_length = spec.max_position_embeddings, .vocab_size = spec.vocab_size};
  const auto check = [&](const std::string& section, const config::Dataset& dataset) {
    if (!loaded.is_read(section)) return;
    try {
      data::check_sequence_length(dataset, context.context_length);
      if (config::is_mock(dataset.kind)) data::build_dataset(dataset, context, "");
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) {
        const std::string key = section + "." + problem.what.substr(0, problem.what.find(':'));
        problems.add({config::where(loaded.tree, key), section + "." + problem.what, problem.rule, problem.fix});
      }
    }
  };
  if (loaded.recipe.dataset) check("dataset", *loaded.recipe.dataset);
  for (const config::ValidationDataset& set : loaded.recipe.validation_datasets) check(set.key, set.dataset);
}

/// "embedding.weight, layers.0.…": what patterns may look for.
std::string names_for_example(const model::ParameterTable& table) {
  std::vector<std::string> names;
  for (const model::ParameterSpec& parameter : table.parameters)
    if (names.size() < 3 && (names.empty() || parameter.layer == 0)) names.push_back(parameter.pieces.front().tensor);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// A pattern that finds nothing was meant for another model.
void check_patterns(const config::LoadedRecipe& loaded, const model::ModelSpec& spec, ProblemList& problems) {
  const model::ParameterTable table = model::parameter_table(spec);
  const auto check = [&](const std::string& section, const std::string& key, const std::string& pattern) {
    if (!loaded.is_read(section)) return;
    const std::regex expression(pattern);
    for (const model::ParameterSpec& parameter : table.parameters)
      for (const model::Piece& piece : parameter.pieces)
        if (std::regex_search(piece.tensor, expression)) return;
    problems.add({config::where(loaded.tree, key), fmt::format("{}: no parameter's name matches \"{}\"", key, pattern),
                  "regular expressions are searched in the names of the checkpoint's tensors",
                  fmt::format("fix the pattern or leave it out; names are such as {}", names_for_example(table))});
  };
  const std::vector<std::string>& frozen = loaded.recipe.freeze_config.patterns;
  const config::Node* list = config::find_path(loaded.tree, "freeze_config.patterns");
  for (std::size_t i = 0; i < frozen.size(); ++i)
    check("freeze_config", list->is_sequence() ? fmt::format("freeze_config.patterns.{}", i) : "freeze_config.patterns", frozen[i]);
  const std::vector<config::ParamGroupOverride>& groups = loaded.recipe.optimizer.param_group_overrides;
  for (std::size_t i = 0; i < groups.size(); ++i) check("optimizer", fmt::format("optimizer.param_group_overrides.{}.pattern", i), groups[i].pattern);
}

void check_something_is_trained(const config::LoadedRecipe& loaded, const model::ModelSpec& spec, ProblemList& problems) {
  if (!loaded.is_read("freeze_config")) return;
  const model::ParameterPredicate frozen = frozen_parameters(loaded.recipe);
  if (frozen && std::ranges::all_of(model::parameter_table(spec).parameters, frozen))
    problems.add({config::where(loaded.tree, "freeze_config"), "freeze_config leaves no parameter to train", "",
                  "freeze less; `tessera eval` measures a model without training it"});
}

/// What the schedule cannot be, whatever the data: a run whose length they decide is taken for endless.
void check_schedule(const config::LoadedRecipe& loaded, ProblemList& problems) {
  for (const char* section : {"lr_scheduler", "optimizer", "step_scheduler", "dataset", "packed_sequence"})
    if (!loaded.is_read(section)) return;
  constexpr std::int64_t endless = std::int64_t{1} << 60;
  make_lr_schedule(loaded, most_steps(loaded.recipe).value_or(endless), problems);
}

/// That what the run writes can be written; nothing is created. Returns whether that is so.
bool check_output_directories(const config::LoadedRecipe& loaded, ProblemList& problems) {
  const std::size_t before = problems.problems().size();
  const auto check = [&](const std::string& section, const std::string& key, const std::string& directory) {
    const std::string why = loaded.is_read(section) ? why_not_writable(directory) : "";
    if (!why.empty())
      problems.add({config::where(loaded.tree, key), fmt::format("{}: {} cannot be written: {}", key, directory, why), "",
                    "choose another directory or fix its permissions"});
  };
  const config::Recipe& recipe = loaded.recipe;
  if (recipe.checkpoint.enabled) check("checkpoint", "checkpoint.checkpoint_dir", recipe.checkpoint.checkpoint_dir);
  if (!recipe.logging.directory.empty()) check("logging", "logging.directory", recipe.logging.directory);
  return problems.problems().size() == before;
}

/// That in the middle of an epoch the samples that are left come in the order in which they would have.
void check_order_of_samples(const config::LoadedRecipe& loaded, const std::filesystem::path& checkpoint, const checkpoint::Manifest& manifest) {
  const config::Recipe& recipe = loaded.recipe;
  for (const char* section : {"seed", "rng", "dataset", "dataloader", "step_scheduler"})
    if (!loaded.is_read(section)) return;
  if (!recipe.dataset) return;
  data::refuse_changed_order(order_of_samples(recipe, *recipe.dataset, recipe.dataloader, true),
                             checkpoint::read_training_state(checkpoint, manifest).loader, (checkpoint / "loader.json").string());
}

/// That the run can begin where it would: at a checkpoint that is there and whole, of this model when that is known, with nothing in the way of what
/// is saved then. Of the checkpoint, its manifest and its small files are read.
void check_restore_point(const config::LoadedRecipe& loaded, const std::optional<ModelPlan>& plan, ProblemList& problems) {
  const config::Checkpoint& options = loaded.recipe.checkpoint;
  if (!loaded.is_read("checkpoint") || !options.enabled) return;
  try {
    const RestorePoint point = find_restore_point(options);
    std::int64_t step = 0;
    if (!point.path.empty() && checkpoint::is_checkpoint(point.path)) {
      const checkpoint::Manifest manifest = checkpoint::read_manifest(point.path);
      if (plan) checkpoint::refuse_other_model(point.path, manifest.signature, signature_of(*plan), point.weights_alone);
      if (!point.weights_alone) {
        step = manifest.step;
        check_order_of_samples(loaded, point.path, manifest);
      }
    }
    checkpoint::refuse_later_checkpoints(options.checkpoint_dir, step);
  } catch (const UserError& error) {
    const char* const key = options.restore_from.empty() ? "checkpoint.checkpoint_dir" : "checkpoint.restore_from";
    for (const Problem& problem : error.problems())
      problems.add({config::where(loaded.tree, key), problem.where + ": " + problem.what, problem.rule, problem.fix});
  }
}

/// One recipe on so many ranks: each step needs sections that were read without mistakes, and does not run without them.
class Examiner {
 public:
  Examiner(const config::LoadedRecipe& loaded, const Environment& environment, std::int64_t world_size, std::int64_t rank)
      : loaded_(loaded),
        recipe_(loaded.recipe),
        environment_(environment),
        world_size_(world_size),
        rank_(rank),
        splits_known_(loaded.is_read_but_for_unknown_keys("distributed")),
        dp_size_(splits_known_ ? config::data_parallel_size(recipe_.distributed.sizes, world_size) : std::nullopt) {}

  Examination operator()() {
    append(result_.problems, loaded_.mistakes);
    append(result_.problems, loaded_.unsupported);
    append(result_.problems, config::absent_resources(loaded_, environment_));
    examine_ranks();
    if (says_a_model()) examine_model();
    check_schedule(loaded_, problems_);
    const bool can_save = check_output_directories(loaded_, problems_);
    if (rank_ == 0 && can_save) check_restore_point(loaded_, result_.plan, problems_);
    append(result_.problems, problems_.problems());
    result_.problems = config::with_placeholders(std::move(result_.problems), loaded_.tree, environment_);
    // What was made of half a recipe is not to be shown.
    if (!loaded_.mistakes.empty()) return {.problems = std::move(result_.problems), .plan = {}, .mesh = {}, .pipeline = {}};
    return std::move(result_);
  }

 private:
  /// A model of another kind is refused by name, and nothing of it is read.
  bool says_a_model() const { return loaded_.is_read("model") && (!recipe_.model.path.empty() || !recipe_.model.config.empty()); }

  void examine_ranks() {
    if (splits_known_) config::validate_parallelism(recipe_.distributed, world_size_, config::locate_in(loaded_.tree), problems_);
    if (splits_known_ && problems_.empty()) result_.mesh = mesh::mesh_sizes(recipe_.distributed, world_size_);
    config::validate_packing(loaded_, problems_);
    if (dp_size_) config::validate_batch_sizes(loaded_, *dp_size_, problems_);
  }

  void examine_model() try {
    const bool ranks_are_right = problems_.empty() && loaded_.is_read("step_scheduler") && loaded_.is_read("dataloader");
    const ModelPlan& plan = result_.plan.emplace(plan_model(loaded_, environment_));
    check_datasets(loaded_, plan.spec, problems_);
    check_patterns(loaded_, plan.spec, problems_);
    check_something_is_trained(loaded_, plan.spec, problems_);
    refuse_expert_options(loaded_, plan.spec, result_.problems);
    if (splits_known_) examine_split(plan, ranks_are_right);
    check_weights_on_disk(plan);
  } catch (const UserError& error) {
    if (!is_listed_as_absent(recipe_.model, environment_)) append(result_.problems, error.problems());
  }

  void examine_split(const ModelPlan& plan, bool ranks_are_right) {
    if (ranks_are_right && dp_size_) result_.pipeline = examine_pipeline(loaded_, plan, *dp_size_, problems_);
    if (result_.pipeline) refuse_pipeline_options(loaded_, plan.dtype, result_.problems);
    const std::size_t before = problems_.problems().size();
    parallel::plan_split(recipe_.distributed, plan.spec, config::locate_in(loaded_.tree), problems_);
    if (problems_.problems().size() > before) result_.mesh.reset();  // the model does not divide among these ranks
    if (world_size_ > 1) refuse_other_dtypes(loaded_, plan, result_.problems);
  }

  const config::LoadedRecipe& loaded_;
  const config::Recipe& recipe_;
  const Environment& environment_;
  std::int64_t world_size_;
  std::int64_t rank_;
  bool splits_known_;
  std::optional<std::int64_t> dp_size_;
  Examination result_;
  ProblemList problems_;
};

}  // namespace

Examination examine(const config::LoadedRecipe& recipe, const Environment& environment, std::int64_t world_size, std::int64_t rank) {
  return Examiner(recipe, environment, world_size, rank)();
}

std::int64_t microbatch_rows(const config::Distributed& distributed, std::int64_t local_batch_size) {
  const std::int64_t rows = distributed.pipeline ? distributed.pipeline->pp_microbatch_size : 1;
  return distributed.sizes.pp_size > 1 && local_batch_size % rows == 0 ? rows : local_batch_size;
}

std::int64_t num_microbatches(const config::Recipe& recipe, std::int64_t dp_size) {
  return recipe.step_scheduler.global_batch_size / (microbatch_rows(recipe.distributed, config::local_batch_size(recipe)) * dp_size);
}

}  // namespace tessera::train
