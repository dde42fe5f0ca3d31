#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/config/recipe.h"
#include "tessera/model/routing.h"
#include "tessera/model/spec.h"
#include "tessera/parallel/causal_lm.h"

/// What a run does about its experts besides training them: the options of the decoder, what is counted, correction biases.
namespace tessera::train {

/// The recipe's words for it as the decoder's.
model::RoutingOptions routing_options(const config::Recipe& recipe);

/// What a recipe asks of experts that its model does not have.
void refuse_expert_options(const config::LoadedRecipe& loaded, const model::ModelSpec& spec, std::vector<Problem>& problems);

/// The experts of a model that is trained, step by step. The decoder writes into the record, so it stays where it is.
struct ExpertTraining {
  model::RoutingRecord record = {};              ///< of this rank
  double bias_update = 0.0;                      ///< γ of update_correction_biases after each step; 0: none
  std::int64_t num_tokens = 0;                   ///< of the last step, over all ranks and microbatches, like the next
  std::vector<model::LayerRouting> layers = {};  ///< of every layer of the model; without loads where it has no experts
};

/// Set as the record of the model's decoder. The second is null when the model has no experts, or the recipe asks for nothing that counts their
/// choices: auxiliary losses, a capacity, bias updates, metrics.
std::unique_ptr<ExpertTraining> make_expert_training(parallel::CausalLM& model, double bias_update);
std::unique_ptr<ExpertTraining> make_expert_training(parallel::CausalLM& model, const config::Recipe& recipe);

/// Forgets the last step and scales auxiliary losses to the mean over the tokens of the next.
void begin_step(ExpertTraining& experts, std::int64_t num_tokens);

/// `layers` from the records of all ranks: one all-reduce over all ranks. Every rank calls it.
void sum_over_ranks(ExpertTraining& experts, const parallel::CausalLM& model);

/// bias += speed · sign(mean load − load) for each expert of each layer with a correction bias (Wang et al. 2024, arXiv 2408.15664), in what this
/// rank holds of it. No collective: every rank has all loads. Gathered copies must have been dropped, as after a step.
void update_correction_biases(model::ParameterStore& store, std::span<const model::LayerRouting> layers, double speed);

}  // namespace tessera::train
