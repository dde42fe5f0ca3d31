#include "tessera/train/recipe_data.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iterator>

#include "tessera/config/interpolate.h"
#include "tessera/core/error.h"
#include "tessera/core/logging.h"
#include "tessera/data/dataset/build.h"
#include "tessera/data/packing.h"
#include "tessera/data/template/chat.h"
#include "tessera/data/tokenizer/frame_choice.h"
#include "tessera/train/examine.h"

namespace tessera::train {
namespace {

/// The dataset's tokenizer, else the recipe's, else the model's; none for data that brings its own tokens.
std::optional<data::Tokenizer> find_tokenizer(const config::LoadedRecipe& loaded, const config::Dataset& dataset, const std::string& section,
                                              const ModelPlan& plan, const Environment& environment) {
  const config::Tokenizer named = (dataset.tokenizer ? dataset.tokenizer : loaded.recipe.tokenizer).value_or(config::Tokenizer{});
  const data::FrameChoice frame{.bos = named.add_bos_token, .eos = named.add_eos_token};
  if (const auto path = named_tokenizer(loaded, dataset, section, environment)) return data::load_tokenizer(*path, frame);
  const bool has_own_tokens =
      config::is_mock(dataset.kind) || dataset.kind == config::DatasetKind::Nanogpt || dataset.kind == config::DatasetKind::MegatronPretraining;
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
  const bool in_order = packing.packing_strategy == config::PackingStrategy::InOrder;
  const data::PackingOptions options{.size = packing.packed_sequence_size,
                                     .strategy = packing.packing_strategy,
                                     .max_packs = training ? packing.max_packs : std::nullopt,
                                     .drop_long = in_order || packing.drop_long_samples.value_or(false)};
  return std::make_shared<data::PackedDataset>(std::move(dataset), options, num_threads);
}

/// Megatron's samples are shuffled already, unless the recipe asks for another order every epoch.
bool shuffles(const config::Dataset& dataset, const config::Dataloader& dataloader, bool training) {
  if (dataset.kind == config::DatasetKind::MegatronPretraining) return dataloader.dataloader_type == config::MegatronOrder::Cyclic;
  return training;
}

std::optional<std::int64_t> num_samples_drawn(const config::Recipe& recipe, bool training) {
  if (!training || !recipe.step_scheduler.max_steps) return std::nullopt;
  return *recipe.step_scheduler.max_steps * recipe.step_scheduler.global_batch_size;
}

/// "recipe.yaml:12: dataset": before messages that name no file.
std::string place_of(const config::LoadedRecipe& loaded, const std::string& section) { return config::where(loaded.tree, section) + ": " + section; }

RecipeData make_data(const config::LoadedRecipe& loaded, const ModelPlan& plan, const Environment& environment, const config::Dataset& options,
                     const std::string& section, bool training) {
  const config::Recipe& recipe = loaded.recipe;
  const std::string place = place_of(loaded, section);
  RecipeData data{.dataset = nullptr, .tokenizer = find_tokenizer(loaded, options, section, plan, environment)};
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

}  // namespace

std::optional<std::filesystem::path> named_tokenizer(const config::LoadedRecipe& loaded, const config::Dataset& dataset, const std::string& section,
                                                     const Environment& environment) {
  const std::optional<config::Tokenizer>& named = dataset.tokenizer ? dataset.tokenizer : loaded.recipe.tokenizer;
  if (!named || named->path.empty()) return std::nullopt;
  return path_on_disk(loaded, dataset.tokenizer ? section + ".tokenizer" : "tokenizer", "the tokenizer", named->path, environment);
}

data::LoaderOptions order_of_samples(const config::Recipe& recipe, const config::Dataset& dataset, const config::Dataloader& dataloader,
                                     bool training) {
  return {.global_batch_size = recipe.step_scheduler.global_batch_size,
          .seed = recipe.seed,
          .shuffle = dataloader.shuffle.value_or(shuffles(dataset, dataloader, training)),
          .group_by_length = dataloader.group_by_length};
}

std::unique_ptr<data::Loader> make_loader(const config::LoadedRecipe& loaded, const ModelPlan& plan, const Environment& environment,
                                          const LoaderRequest& request) {
  const config::Recipe& recipe = loaded.recipe;
  RecipeData data = make_data(loaded, plan, environment, request.dataset, request.section, request.training);
  const std::int64_t local = request.dataloader.batch_size.value_or(recipe.step_scheduler.local_batch_size);
  data::LoaderOptions options = order_of_samples(recipe, request.dataset, request.dataloader, request.training);
  if (!request.training) options.global_batch_size = local * request.mesh.dp_size();
  options.local_batch_size = microbatch_rows(recipe.distributed, local);
  options.dp_rank = request.mesh.dp_rank();
  options.dp_size = request.mesh.dp_size();
  options.drop_last = request.training && request.dataloader.drop_last;
  options.redact = [tree = loaded.tree, environment](std::string text) { return config::with_placeholders(std::move(text), tree, environment); };
  options.collate.pad_id = data.tokenizer ? data.tokenizer->special_tokens().pad.value_or(0) : 0;
  options.collate.pad_multiple = request.dataloader.pad_seq_len_divisible.value_or(1);
  if (request.dataloader.num_workers > 0) options.num_workers = static_cast<int>(request.dataloader.num_workers);
  try {
    auto loader = std::make_unique<data::Loader>(std::move(data.dataset), options);
    log::note("{}: {}", request.section, loader->description());
    return loader;
  } catch (const UserError& error) {
    throw data::in_section(error, place_of(loaded, request.section));
  }
}

RecipeData build_recipe_data(const config::LoadedRecipe& loaded, const Environment& environment) {
  const config::Recipe& recipe = loaded.recipe;
  if (!recipe.dataset) {
    std::vector<Problem> refused;
    std::ranges::copy_if(loaded.unsupported, std::back_inserter(refused), [](const Problem& problem) {
      return problem.what.starts_with("dataset") || problem.what.starts_with("dataloader.dataset");
    });
    if (refused.empty())
      refused.push_back({config::where(loaded.tree, "dataset"), "the recipe has no dataset", "training needs samples",
                         "add a dataset section; docs/data.md lists the kinds"});
    throw UserError(std::move(refused));
  }
  return config::with_placeholders(loaded.tree, environment,
                                   [&] { return make_data(loaded, plan_model(loaded, environment), environment, *recipe.dataset, "dataset", true); });
}

}  // namespace tessera::train
