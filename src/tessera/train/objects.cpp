#include "tessera/train/objects.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <regex>

#include "tessera/config/hub.h"
#include "tessera/core/error.h"
#include "tessera/core/logging.h"
#include "tessera/data/dataset/build.h"
#include "tessera/data/packing.h"
#include "tessera/data/template/chat.h"
#include "tessera/data/tokenizer/frame_choice.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/formats/huggingface.h"
#include "tessera/model/config.h"
#include "tessera/model/config_position.h"
#include "tessera/parallel/data/policy.h"
#include "tessera/train/examine.h"
#include "tessera/train/schedule.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

fs::path on_disk(const std::string& name, const config::Environment& environment, const std::string& what) {
  if (const auto path = config::find_on_disk(name, environment)) return *path;
  throw UserError({"", fmt::format("{} \"{}\" is not on disk", what, name), std::string(config::kModelsAreLocal), "give the path of a local copy"});
}

/// Where the recipe sets a field of the model's configuration, if it does.
std::optional<std::string> where_in_recipe(const config::LoadedRecipe& loaded, const std::string& field) {
  if (!loaded.recipe.model.config.contains(field)) return std::nullopt;
  for (const char* section : {"model.config.", "model."})
    if (config::find_path(loaded.tree, section + field) != nullptr) return config::where(loaded.tree, section + field);
  return std::nullopt;
}

}  // namespace

std::function<bool(const model::ParameterSpec&)> frozen_parameters(const config::Recipe& recipe) {
  const config::FreezeConfig& freeze = recipe.freeze_config;
  const bool freeze_routers = !recipe.model.moe_overrides.train_gate;
  if (!freeze.freeze_embeddings && !freeze.freeze_language_model && freeze.patterns.empty() && !freeze_routers) return nullptr;
  std::vector<std::regex> patterns;
  for (const std::string& pattern : freeze.patterns) patterns.emplace_back(pattern);
  return [freeze, freeze_routers, patterns](const model::ParameterSpec& parameter) {
    const bool embedding = parameter.role == model::Role::Embedding || parameter.role == model::Role::PositionEmbedding;
    if (freeze.freeze_language_model || (freeze.freeze_embeddings && embedding)) return true;
    if (freeze_routers && parameter.role == model::Role::Router) return true;
    return std::ranges::any_of(patterns, [&](const std::regex& pattern) {
      return std::ranges::any_of(parameter.pieces, [&](const model::Piece& piece) { return std::regex_search(piece.tensor, pattern); });
    });
  };
}

namespace {

parallel::CausalLM make_model(const config::Recipe& recipe, const ModelPlan& plan, const parallel::DistributedSetup& setup) {
  const model::CausalLMOptions options{.dtype = plan.dtype,
                                       .trainable = true,
                                       .frozen = frozen_parameters(recipe),
                                       .decoder = {.activation_checkpointing = to_model(recipe.distributed.activation_checkpointing),
                                                   .routing = routing_options(recipe),
                                                   .dropout_seed = recipe.seed},
                                       .placement = {}};
  const std::int64_t microbatches = num_microbatches(recipe, setup.mesh->dp_size());
  if (plan.pretrained) return parallel::CausalLM::from_pretrained(*plan.directory, plan.spec, setup, options, microbatches);
  return parallel::CausalLM::from_config(plan.spec, recipe.seed, setup, options, microbatches);
}

/// The dataset's tokenizer, else the recipe's, else the model's; none for data that brings its own tokens.
std::optional<data::Tokenizer> find_tokenizer(const config::Recipe& recipe, const config::Dataset& dataset, const ModelPlan& plan,
                                              const config::Environment& environment) {
  const config::Tokenizer named = (dataset.tokenizer ? dataset.tokenizer : recipe.tokenizer).value_or(config::Tokenizer{});
  const data::FrameChoice frame{.bos = named.add_bos_token, .eos = named.add_eos_token};
  if (!named.path.empty()) return data::load_tokenizer(on_disk(named.path, environment, "the tokenizer"), frame);
  const bool has_own_tokens = dataset.kind == config::DatasetKind::MockIterable || dataset.kind == config::DatasetKind::MockUnpacked ||
                              dataset.kind == config::DatasetKind::MockPacked || dataset.kind == config::DatasetKind::Nanogpt ||
                              dataset.kind == config::DatasetKind::MegatronPretraining;
  if (has_own_tokens || !plan.directory) return std::nullopt;
  return data::load_tokenizer(*plan.directory, frame);
}

/// The dataset's template (a file, or the template itself), else the tokenizer's.
std::optional<data::ChatTemplate> find_chat_template(const config::Dataset& dataset, const std::optional<data::Tokenizer>& tokenizer) {
  const std::string& named = dataset.chat_template;
  if (named.find("{%") != std::string::npos || named.find("{{") != std::string::npos) return data::ChatTemplate(named, "dataset.chat_template");
  if (!named.empty()) return data::load_chat_template(named);
  if (!tokenizer || !tokenizer->chat_template()) return std::nullopt;
  return data::chat_template_of(*tokenizer);
}

/// A dataset as packs when the recipe asks for them. AutoModel's `thd` always leaves out what is too long; `neat` only when told to. max_packs says
/// how much is trained on: a validation set is measured whole.
std::shared_ptr<const data::Dataset> packed(std::shared_ptr<const data::Dataset> dataset, const config::PackedSequence& packing, bool training,
                                            int num_threads) {
  if (packing.packed_sequence_size == 0) return dataset;
  const bool in_order = packing.packing_strategy == config::PackingStrategy::Thd;
  const data::PackingOptions options{.size = packing.packed_sequence_size,
                                     .strategy = in_order ? data::PackingStrategy::InOrder : data::PackingStrategy::Balanced,
                                     .max_packs = training ? packing.max_packs : std::nullopt,
                                     .drop_long = in_order || packing.drop_long_samples.value_or(false)};
  return std::make_shared<data::PackedDataset>(std::move(dataset), options, num_threads);
}

struct LoaderRequest {
  const config::Dataset& dataset;
  const config::Dataloader& dataloader;
  const mesh::MeshContext& mesh;
  std::string section;
  bool training = true;
};

/// Megatron's samples are shuffled already, unless the recipe asks for another order every epoch.
bool shuffles(const LoaderRequest& request) {
  if (request.dataset.kind == config::DatasetKind::MegatronPretraining) return request.dataloader.dataloader_type == config::MegatronOrder::Cyclic;
  return request.training;
}

std::optional<std::int64_t> num_samples_drawn(const config::Recipe& recipe, bool training) {
  if (!training || !recipe.step_scheduler.max_steps) return std::nullopt;
  return *recipe.step_scheduler.max_steps * recipe.step_scheduler.global_batch_size;
}

/// "recipe.yaml:12: dataset": before messages that name no file.
std::string place_of(const config::LoadedRecipe& loaded, const std::string& section) { return config::where(loaded.tree, section) + ": " + section; }

RecipeData make_data(const config::LoadedRecipe& loaded, const ModelPlan& plan, const config::Environment& environment,
                     const config::Dataset& options, const std::string& section, bool training) {
  const config::Recipe& recipe = loaded.recipe;
  const std::string place = place_of(loaded, section);
  RecipeData data{.dataset = nullptr, .tokenizer = find_tokenizer(recipe, options, plan, environment)};
  const data::DatasetContext context{.tokenizer = data.tokenizer,
                                     .chat_template = find_chat_template(options, data.tokenizer),
                                     .context_length = plan.spec.max_position_embeddings,
                                     .vocab_size = plan.spec.vocab_size,
                                     .num_threads = at::get_num_threads(),
                                     .environment = environment,
                                     .validation = !training,
                                     .num_samples = num_samples_drawn(recipe, training)};
  data.dataset = data::build_dataset(options, context, place);
  try {
    data.dataset = packed(std::move(data.dataset), recipe.packed_sequence, training, context.num_threads);
  } catch (const UserError& error) {
    throw data::in_section(error, place);
  }
  return data;
}

std::unique_ptr<data::Loader> make_loader(const config::LoadedRecipe& loaded, const ModelPlan& plan, const config::Environment& environment,
                                          const LoaderRequest& request) {
  const config::Recipe& recipe = loaded.recipe;
  RecipeData data = make_data(loaded, plan, environment, request.dataset, request.section, request.training);
  log::note("{}: {}", request.section, data.dataset->description());
  const std::int64_t local = request.dataloader.batch_size.value_or(recipe.step_scheduler.local_batch_size);
  data::LoaderOptions options{.global_batch_size = request.training ? recipe.step_scheduler.global_batch_size : local * request.mesh.dp_size(),
                              .local_batch_size = microbatch_rows(recipe.distributed, local),
                              .dp_rank = request.mesh.dp_rank(),
                              .dp_size = request.mesh.dp_size(),
                              .seed = recipe.seed,
                              .shuffle = request.dataloader.shuffle.value_or(shuffles(request)),
                              .drop_last = request.training && request.dataloader.drop_last,
                              .group_by_length = request.dataloader.group_by_length};
  options.collate.pad_id = data.tokenizer ? data.tokenizer->special_tokens().pad.value_or(0) : 0;
  options.collate.pad_multiple = request.dataloader.pad_seq_len_divisible.value_or(1);
  if (request.dataloader.num_workers > 0) options.num_workers = static_cast<int>(request.dataloader.num_workers);
  try {
    return std::make_unique<data::Loader>(std::move(data.dataset), options);
  } catch (const UserError& error) {
    throw data::in_section(error, place_of(loaded, request.section));
  }
}

optim::AdamOptions adam_options(const config::LoadedRecipe& loaded) {
  const config::Optimizer& optimizer = loaded.recipe.optimizer;
  optim::AdamOptions options{.kind = optimizer.kind == config::OptimizerKind::AdamW ? optim::AdamKind::AdamW : optim::AdamKind::Adam,
                             .betas = optimizer.betas,
                             .epsilon = optimizer.eps};
  options.groups.decay_groups = optimizer.decay_groups;
  const std::string where = config::where(loaded.tree, "optimizer.param_group_overrides");
  for (const config::ParamGroupOverride& group : optimizer.param_group_overrides)
    options.groups.patterns.push_back({group.pattern, {group.lr_mult, group.wd_mult}, where});
  return options;
}

/// Of a model that was not loaded from a directory: its config.json, and the tokenizer's files when the recipe names one.
checkpoint::ModelFiles make_model_files(const config::Recipe& recipe, const ModelPlan& plan, const config::Environment& environment) {
  if (plan.pretrained) return checkpoint::model_files(*plan.directory, plan.saved_dtype);
  Json config = plan.config;
  config["torch_dtype"] = std::string(torch_name(plan.saved_dtype));
  checkpoint::ModelFiles files{config.dump(2) + "\n", {}};
  const std::optional<config::Tokenizer>& named = recipe.dataset->tokenizer ? recipe.dataset->tokenizer : recipe.tokenizer;
  std::optional<fs::path> tokenizer = plan.directory;
  if (named && !named->path.empty()) tokenizer = on_disk(named->path, environment, "the tokenizer");
  if (tokenizer && fs::is_directory(*tokenizer)) files.others = checkpoint::read_files(formats::find_tokenizer_files(*tokenizer).existing());
  return files;
}

}  // namespace

model::ActivationCheckpointing to_model(config::ActivationCheckpointing value) {
  switch (value) {
    case config::ActivationCheckpointing::Off:
      return model::ActivationCheckpointing::None;
    case config::ActivationCheckpointing::Full:
      return model::ActivationCheckpointing::Full;
    case config::ActivationCheckpointing::Selective:
      return model::ActivationCheckpointing::Selective;
  }
  TESSERA_ASSERT(false, "no such mode");
}

/// The dtype that a recipe's sharding strategy has its model compute in, whatever the model's own.
std::optional<DType> param_dtype(const config::Distributed& distributed) {
  const std::optional<config::MixedPrecisionPolicy> policy = parallel::fsdp2_options(distributed).mp_policy;
  return distributed.strategy == config::Strategy::Fsdp2 && policy ? policy->param_dtype : std::nullopt;
}

checkpoint::ModelSignature signature_of(const ModelPlan& plan) { return checkpoint::model_signature(plan.spec, model::parameter_table(plan.spec)); }

ModelPlan plan_model(const config::LoadedRecipe& loaded, const config::Environment& environment) {
  const config::Recipe& recipe = loaded.recipe;
  ModelPlan plan;
  plan.pretrained = recipe.model.source == config::ModelSource::Pretrained;
  std::string where = config::where(loaded.tree, "model");
  model::LocateField locate = [&](const std::string&) { return where; };
  plan.config = Json::object();
  if (!recipe.model.path.empty()) {
    const fs::path path = on_disk(recipe.model.path, environment, "the model");
    if (fs::is_directory(path)) plan.directory = path;
    plan.config = model::read_config_json(path);
    const fs::path file = plan.directory ? path / "config.json" : path;
    where = file.string();
    locate = model::lines_of_fields(file);
  }
  plan.config.merge_patch(recipe.model.config);
  plan.spec =
      model::model_spec_from_json(plan.config, where, [&](const std::string& key) { return where_in_recipe(loaded, key).value_or(locate(key)); });
  if (recipe.loss_fn.logit_softcapping > 0.0) plan.spec.final_soft_cap = recipe.loss_fn.logit_softcapping;
  plan.saved_dtype = recipe.model.torch_dtype.value_or(model::default_compute_dtype(plan.spec));
  plan.dtype = param_dtype(recipe.distributed).value_or(plan.saved_dtype);
  if (plan.dtype == DType::F32) plan.saved_dtype = DType::F32;
  return plan;
}

namespace {

/// Runs what may name files of the recipe in its errors, which then show them as the recipe does.
template <class Work>
auto with_placeholders(const config::LoadedRecipe& loaded, const config::Environment& environment, const Work& work) try {
  return work();
} catch (const UserError& error) {
  throw UserError(config::with_placeholders(error.problems(), loaded.tree, environment));
}

TrainingObjects build_examined(const config::LoadedRecipe& loaded, const ModelPlan& plan, const config::Environment& environment,
                               comm::Backend& backend) {
  const config::Recipe& recipe = loaded.recipe;
  parallel::DistributedSetup setup = parallel::DistributedSetup::build(backend, recipe.distributed);
  const mesh::MeshContext& mesh = *setup.mesh;
  TrainingObjects objects{.plan = plan,
                          .setup = std::move(setup),
                          .model = {},
                          .experts = nullptr,
                          .loader = make_loader(loaded, plan, environment, {*recipe.dataset, recipe.dataloader, mesh, "dataset", true}),
                          .validation = {},
                          .optimizer = nullptr,
                          .schedule = {},
                          .total_steps = 0,
                          .signature = {},
                          .model_files = backend.rank() == 0 ? make_model_files(recipe, plan, environment) : checkpoint::ModelFiles{}};
  for (const config::ValidationDataset& set : recipe.validation_datasets)
    objects.validation.push_back(
        {set.name, make_loader(loaded, plan, environment, {set.dataset, recipe.validation_dataloader, mesh, set.key, false})});
  objects.total_steps = total_steps(recipe.step_scheduler, objects.loader->steps_per_epoch());
  ProblemList problems;
  objects.schedule = make_schedule(loaded, objects.total_steps, problems);
  problems.throw_if_any();
  objects.model = make_model(recipe, plan, objects.setup);
  objects.experts = make_expert_training(objects.model, recipe);
  objects.optimizer = std::make_unique<optim::Optimizer>(*objects.model.model.store, adam_options(loaded));
  objects.signature = signature_of(plan);
  return objects;
}

}  // namespace

RecipeData build_recipe_data(const config::LoadedRecipe& loaded, const config::Environment& environment) {
  const config::Recipe& recipe = loaded.recipe;
  if (!recipe.dataset) {
    std::vector<Problem> refused;
    std::ranges::copy_if(loaded.unsupported, std::back_inserter(refused), [](const Problem& problem) { return problem.what.starts_with("dataset"); });
    if (refused.empty())
      refused.push_back({config::where(loaded.tree, "dataset"), "the recipe has no dataset", "training needs samples",
                         "add a dataset section; docs/data.md lists the kinds"});
    throw UserError(std::move(refused));
  }
  return with_placeholders(loaded, environment,
                           [&] { return make_data(loaded, plan_model(loaded, environment), environment, *recipe.dataset, "dataset", true); });
}

TrainingObjects build_objects(const config::LoadedRecipe& loaded, const config::Environment& environment, comm::Backend& backend) {
  Examination examination = examine(loaded, environment, backend.world_size(), backend.rank());
  if (!examination.problems.empty()) throw UserError(std::move(examination.problems));
  return with_placeholders(loaded, environment, [&] { return build_examined(loaded, *examination.plan, environment, backend); });
}

}  // namespace tessera::train
