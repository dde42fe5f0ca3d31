#include "tessera/train/not_finite.h"

#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include <cmath>

#include "tessera/comm/values.h"
#include "tessera/core/error.h"
#include "tessera/optim/gradient_norm.h"

namespace tessera::train {
namespace {

/// The first checkpoint tensor of those this rank owns that holds a NaN or an infinity.
std::optional<std::string> nonfinite_weight(const model::ParameterStore& store) {
  for (const model::PlacedPiece& piece : store.owned_pieces())
    if (!at::isfinite(model::held_view(store, piece)).all().item<bool>()) return piece.piece.tensor;
  return std::nullopt;
}

/// Processors give NaN either sign, which says nothing.
double without_sign_of_nan(double value) { return std::isnan(value) ? std::fabs(value) : value; }

/// What this rank sees; empty when everything it owns is finite.
std::string weight_at_fault(const model::ParameterStore& store) {
  const auto tensor = nonfinite_weight(store);
  return tensor ? "the weight " + *tensor + " is not finite" : "";
}

std::string gradient_at_fault(const model::ParameterStore& store) {
  const auto gradient = optim::find_nonfinite_gradient(store);
  return gradient ? optim::to_string(*gradient) : "";
}

/// The first rank's that has something to say.
std::string first_of(comm::Communicator& group, const std::string& own) {
  const std::vector<std::string> all = comm::gather(group, own);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) return all.size() == 1 ? all[rank] : fmt::format("{} (seen by rank {})", all[rank], group.members()[rank]);
  return "";
}

/// A bad weight spoils every gradient, so it is looked for first.
std::string cause_of_failure(const parallel::CausalLM& model) {
  if (const std::string weight = first_of(model.group(mesh::kWorld), weight_at_fault(*model.model.store)); !weight.empty()) return weight;
  if (const std::string gradient = first_of(model.group(mesh::kWorld), gradient_at_fault(*model.model.store)); !gradient.empty()) return gradient;
  return "every gradient element is finite, their norm overflows";
}

}  // namespace

void fail_not_finite(const parallel::CausalLM& model, const StepResult& result, std::uint64_t step) {
  throw Failure({fmt::format("step {}", step + 1),  // counted from 1, as in the log
                 fmt::format("loss {} and gradient norm {}: {}", without_sign_of_nan(result.gradients.loss),
                             without_sign_of_nan(result.gradient_norm), cause_of_failure(model)),
                 "training stops before a step that would spoil the weights",
                 "resume from the last checkpoint with a lower learning rate, or look at the data of this step"});
}

}  // namespace tessera::train
