#include "tessera/model/summary.h"

#include <algorithm>

namespace tessera::model {
namespace {

/// Positions a token attends to, averaged over the row.
double mean_visible(const LayerSpec& layer, std::int64_t sequence_length) {
  const auto length = static_cast<double>(sequence_length);
  const double window = std::min(length, static_cast<double>(layer.sliding_window.value_or(sequence_length)));
  return window - window * window / (2.0 * length);
}

std::int64_t share(std::int64_t elements, std::int64_t num_ranks) { return (elements + num_ranks - 1) / num_ranks; }

}  // namespace

double flops_per_token(const ModelSpec& spec, std::int64_t sequence_length) {
  double matrices = static_cast<double>(spec.vocab_size) * static_cast<double>(spec.hidden_size);
  for (const ParameterSpec& parameter : parameter_table(spec).parameters) {
    if (parameter.layer < 0 || parameter.bias || parameter.shape.size() < 2) continue;
    matrices += parameter.share_of_tokens * static_cast<double>(parameter.num_elements());
  }
  double visible = 0.0;
  for (const LayerSpec& layer : spec.layers) visible += mean_visible(layer, sequence_length);
  return 6.0 * matrices + 6.0 * static_cast<double>(spec.num_attention_heads * (spec.head_dim + spec.value_dim())) * visible;
}

MemoryEstimate estimate_state(std::int64_t elements, const MemoryRequest& request) {
  const std::int64_t trained = !request.training ? 0 : request.trainable_elements < 0 ? elements : request.trainable_elements;
  const auto compute = static_cast<std::int64_t>(size_of(request.compute_dtype));
  const std::int64_t master = request.compute_dtype == DType::F64 ? 8 : 4;
  const StateSharding& sharding = request.sharding;
  MemoryEstimate estimate;
  estimate.weights = share(elements, sharding.weights) * compute + (compute == master ? 0 : share(trained, sharding.optimizer) * master);
  estimate.gradients = share(trained, sharding.gradients) * master;
  estimate.optimizer = 2 * share(trained, sharding.optimizer) * master;
  return estimate;
}

}  // namespace tessera::model
