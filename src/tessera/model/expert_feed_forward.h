#pragma once

#include <functional>
#include <string>

#include "tessera/model/routing.h"
#include "tessera/model/seams.h"
#include "tessera/model/spec.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/tape.h"

namespace tessera::model {

/// Finds a parameter of one layer ("router.weight"); nullptr where the family has none.
using FindParameter = std::function<ops::Parameter*(const std::string& name)>;

/// The weights of a feed-forward of experts; null where the family has none.
struct ExpertWeights {
  ops::Parameter *router, *router_bias, *correction_bias;
  ops::Parameter *gate_up, *gate_up_bias, *down, *down_bias;  ///< of the experts that live here, stacked
  ops::Parameter *shared_gate_up, *shared_down, *shared_gate;
};
ExpertWeights find_expert_weights(const FindParameter& find);

/// What one layer's routing takes from the run around it.
struct RoutingCall {
  const RoutingOptions& options;
  at::Tensor row_N;  ///< int64, the row of each token at hand, −1 for padding; undefined where it is not needed
  std::int64_t num_rows = 0;
  double gradient_scale = 0.0;     ///< of auxiliary losses
  LayerRouting* record = nullptr;  ///< null: nothing is counted, and there are no auxiliary losses
  const SumOverRanks& sum_over_sequence;
  const SumOverRanks& sum_over_microbatch;
  at::Tensor* saved_experts = nullptr;  ///< the choice of this layer's first run, or where it goes; null: every run chooses
};

/// Routes tokens to experts and adds up what they make of them, with the shared expert's output where there is one: [N, D] to [N, D]. On a tape that
/// records, also counts the choices and records the gradients of auxiliary losses.
ops::Variable expert_feed_forward(ops::Tape& tape, const ops::Variable& tokens_ND, const ModelSpec& spec, const ExpertWeights& weights,
                                  Dispatcher& dispatcher, const RoutingCall& call);

}  // namespace tessera::model
