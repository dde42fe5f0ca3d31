#include "tessera/ops/router.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/ops/cpu/parallel.h"
#include "tessera/ops/kernel_types.h"
#include "tessera/ops/linear.h"

namespace tessera::ops {
namespace {

/// Indices of the `count` largest of a row, best first; among equals the smaller index.
template <class T>
void best_of_row(const T* values, std::int64_t size, std::int64_t count, std::int64_t* out) {
  std::vector<bool> taken(static_cast<std::size_t>(size));
  for (std::int64_t choice = 0; choice < count; ++choice) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < size; ++i)
      if (!taken[static_cast<std::size_t>(i)] && (best < 0 || values[i] > values[best])) best = i;
    taken[static_cast<std::size_t>(best)] = true;
    out[choice] = best;
  }
}

at::Tensor best_indices(const at::Tensor& values, std::int64_t count) {
  if (!values.is_cpu()) return std::get<1>(at::sort(values, true, -1, true)).narrow(-1, 0, count).contiguous();
  const at::Tensor rows = values.contiguous();
  at::Tensor indices = at::empty({rows.size(0), count}, rows.options().dtype(at::kLong));
  const auto fill = [&]<class T>(T) {
    cpu::parallel_for(0, rows.size(0), 32, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row)
        best_of_row(rows.data_ptr<T>() + row * rows.size(1), rows.size(1), count, indices.data_ptr<std::int64_t>() + row * count);
    });
  };
  rows.scalar_type() == at::kDouble ? fill(double{}) : fill(float{});
  return indices;
}

/// −infinity for experts outside a token's best groups.
at::Tensor limited_to_groups(const at::Tensor& scores_NE, const RouterOptions& options) {
  if (options.num_groups == options.groups_per_token) return scores_NE;
  const at::Tensor groups_NGM = scores_NE.unflatten(1, {options.num_groups, -1});
  const at::Tensor worth_NG = at::sum(std::get<0>(at::topk(groups_NGM, 2, -1)), {-1});
  const at::Tensor outside_NG =
      at::zeros_like(worth_NG, at::TensorOptions().dtype(at::kBool)).fill_(true).scatter_(1, best_indices(worth_NG, options.groups_per_token), false);
  return groups_NGM.masked_fill(outside_NG.unsqueeze(2), -std::numeric_limits<double>::infinity()).flatten(1);
}

/// Scores of all experts that the chosen ones' weights are made of.
at::Tensor weight_scores(const at::Tensor& logits_NE, const at::Tensor& experts_NK, RouterScoring scoring) {
  if (scoring == RouterScoring::TopKThenSoftmax) return at::softmax(at::gather(logits_NE, 1, experts_NK), -1);
  return at::gather(router_scores(logits_NE, scoring), 1, experts_NK);
}

/// The gradient of logits that these gradients of weight_scores make.
at::Tensor score_backward(const at::Tensor& gradient_NK, const at::Tensor& logits_NE, const at::Tensor& experts_NK, RouterScoring scoring) {
  const auto spread = [&](const at::Tensor& values_NK) { return at::zeros_like(logits_NE).scatter_(1, experts_NK, values_NK); };
  const at::Tensor chosen_NK = weight_scores(logits_NE, experts_NK, scoring);
  if (scoring == RouterScoring::Sigmoid) return spread(gradient_NK * chosen_NK * (1.0 - chosen_NK));
  const at::Tensor common = at::sum(gradient_NK * chosen_NK, {-1}, true);
  if (scoring == RouterScoring::TopKThenSoftmax) return spread(chosen_NK * (gradient_NK - common));
  return spread(gradient_NK * chosen_NK) - router_scores(logits_NE, scoring) * common;
}

/// One wider than the tokens': rounding in the product would decide between experts whose logits nearly agree.
at::ScalarType logits_type(const at::Tensor& tokens) { return compute_type(tokens) == tokens.scalar_type() ? at::kDouble : at::kFloat; }

}  // namespace

Variable router_logits(Tape& tape, const Variable& tokens_ND, Parameter& weight_ED, Parameter* bias_E) {
  const at::ScalarType type = logits_type(tokens_ND.value), gradient_type = compute_type(tokens_ND.value);
  const at::Tensor bias = bias_E == nullptr ? at::Tensor() : bias_E->weight.to(type);
  Variable output = tape.variable(linear_forward(tokens_ND.value.to(type), weight_ED.weight.to(type), bias));
  tape.record([tokens = tokens_ND.save(), &weight_ED, bias_E, gradient_type, slot = tokens_ND.gradient, out = output.gradient] {
    if (out->empty()) return;
    const at::Tensor gradient = out->take().to(gradient_type);
    const at::Tensor values = tokens.get();
    if (slot != nullptr) slot->add_owned(matmul_nn(gradient, weight_ED.weight.to(gradient_type)).to(values.scalar_type()));
    deliver_linear_gradients(weight_ED, bias_E, gradient, Saved([tokens, gradient_type] { return tokens.get().to(gradient_type); }));
  });
  return output;
}

at::Tensor router_scores(const at::Tensor& logits_NE, RouterScoring scoring) {
  return scoring == RouterScoring::Sigmoid ? at::sigmoid(logits_NE) : at::softmax(logits_NE, -1);
}

at::Tensor choose_experts(const at::Tensor& logits_NE, const at::Tensor& correction_E, const RouterOptions& options) {
  // A softmax keeps the order, but rounding may make equals of its results: the choice is made among what the weights are made of.
  at::Tensor scores = options.scoring == RouterScoring::TopKThenSoftmax ? logits_NE : router_scores(logits_NE, options.scoring);
  if (correction_E.defined()) scores = scores + correction_E.to(scores.scalar_type());
  return best_indices(limited_to_groups(scores, options), options.num_choices);
}

Variable expert_weights(Tape& tape, const Variable& logits_NE, const at::Tensor& experts_NK, const RouterOptions& options, at::ScalarType type) {
  const at::Tensor scores = weight_scores(logits_NE.value, experts_NK, options.scoring);
  const at::Tensor sum = options.normalize ? at::sum(scores, {-1}, true) + kSmallestSum : at::Tensor();
  const at::Tensor shares = sum.defined() ? scores / sum : scores;
  Variable output = tape.variable((shares * options.scale).to(type));
  tape.record([logits = logits_NE.value, experts_NK, options, sum, shares, slot = logits_NE.gradient, out = output.gradient] {
    if (out->empty() || slot == nullptr) return;
    at::Tensor gradient = out->take().to(logits.scalar_type()) * options.scale;
    if (sum.defined()) gradient = (gradient - at::sum(gradient * shares, {-1}, true)) / sum;
    slot->add_owned(score_backward(gradient, logits, experts_NK, options.scoring));
  });
  return output;
}

}  // namespace tessera::ops
