#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/config/parallelism.h"
#include "tessera/core/error.h"
#include "tessera/model/parameter_table.h"
#include "tessera/model/spec.h"

namespace tessera::parallel {

/// Which parts of a model tensor parallelism cuts; the others are on every rank whole.
struct TensorPlan {
  bool attention = true;     ///< query, key, value by heads; output by the same
  bool feed_forward = true;  ///< gate and up by columns, down by rows
  bool embedding = true;     ///< by tokens
  bool head = true;          ///< likewise

  bool splits(model::Role role) const;
  bool operator==(const TensorPlan&) const = default;
};

/// The plan that a recipe's `distributed.tp_plan` asks for: patterns of module names ("model.layers.*.self_attn.q_proj", a `*` standing for one or
/// more characters without a dot; "layers.*…" without the model's prefix is the same) and Hugging Face's styles. Empty: everything is cut. Modules
/// that no pattern names are whole.
///
/// Styles that only say how activations lie between modules come to the same numbers: colwise, colwise_rep, colwise_gather_output and packed_colwise
/// cut a matrix by outputs, rowwise, rowwise_rep and rowwise_split_input by inputs (an embedding: by tokens); replicate, sequence_parallel and
/// replicated_with_grad_allreduce do not cut. Adds a problem for every pattern that matches nothing, unknown styles, modules that belong together but
/// are not cut together, and styles that disagree with `sequence_parallel`.
TensorPlan tensor_plan(const std::map<std::string, std::string>& tp_plan, const model::ModelSpec& spec, bool sequence_parallel,
                       const std::string& where, ProblemList& problems);

/// What of this model `distributed` cuts: tensor_plan, and every rule about splitting it over tp and cp (config/parallelism.h).
TensorPlan plan_split(const config::Distributed& distributed, const model::ModelSpec& spec, const config::Locate& locate, ProblemList& problems);

/// A line for each kind of module: "model.layers.*.self_attn.q_proj  colwise: 8 of 32 heads".
std::vector<std::string> describe(const TensorPlan& plan, const model::ModelSpec& spec, std::int64_t size, bool sequence_parallel);

}  // namespace tessera::parallel
