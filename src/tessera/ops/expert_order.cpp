#include "tessera/ops/expert_order.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "tessera/core/error.h"
#include "tessera/ops/cpu/parallel.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

/// Tokens that one thread takes at least.
constexpr std::int64_t kGrain = 16;

/// Calls body(T): the type of the rows' elements.
template <class Body>
void with_element_type(const at::Tensor& rows, const Body& body) {
  rows.scalar_type() == at::kBFloat16 ? body(at::BFloat16{}) : body(float{});
}

/// body(choice, row, weight) for every choice of `token` that was not dropped; null weights are 1.
template <class Body>
void for_each_choice(std::int64_t token, std::int64_t choices, const std::int64_t* rows_NK, const float* weights_NK, const Body& body) {
  for (std::int64_t choice = token * choices; choice < (token + 1) * choices; ++choice)
    if (rows_NK[choice] >= 0) body(choice, rows_NK[choice], weights_NK == nullptr ? 1.0F : weights_NK[choice]);
}

template <class T>
void sum_rows_kernel(const at::Tensor& rows_RD, const at::Tensor& rows_NK, const at::Tensor& weights_NK, const at::Tensor& out_ND) {
  const std::int64_t width = rows_RD.size(1), choices = rows_NK.size(1);
  const T* const rows = rows_RD.data_ptr<T>();
  const std::int64_t* const places = rows_NK.data_ptr<std::int64_t>();
  const float* const weights = weights_NK.defined() ? weights_NK.data_ptr<float>() : nullptr;
  T* const out = out_ND.data_ptr<T>();
  cpu::parallel_for(0, out_ND.size(0), kGrain, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> sums(static_cast<std::size_t>(width));
    float* const sum = sums.data();
    for (std::int64_t token = first; token < last; ++token) {
      std::ranges::fill(sums, 0.0F);
      for_each_choice(token, choices, places, weights, [&](std::int64_t, std::int64_t row, float weight) {
        const T* const from = rows + row * width;
        for (std::int64_t i = 0; i < width; ++i) sum[i] += weight * static_cast<float>(from[i]);
      });
      for (std::int64_t i = 0; i < width; ++i) out[token * width + i] = static_cast<T>(sum[i]);
    }
  });
}

/// Of each token, the row of choice k, or zeros where it was dropped; [N, D] in `type`.
at::Tensor rows_of_choice(const at::Tensor& rows_RD, const at::Tensor& rows_NK, std::int64_t k, at::ScalarType type) {
  const at::Tensor places = rows_NK.select(1, k);
  if (rows_RD.size(0) == 0) return at::zeros({places.size(0), rows_RD.size(1)}, rows_RD.options().dtype(type));
  return at::index_select(rows_RD, 0, places.clamp_min(0)).to(type).masked_fill_(places.lt(0).unsqueeze(1), 0.0);
}

/// sum over k of weights_NK · rows_RD[rows_NK], [N, D]; undefined weights are 1.
at::Tensor sum_rows(const at::Tensor& rows_RD, const at::Tensor& rows_NK, const at::Tensor& weights_NK) {
  at::Tensor out = at::empty({rows_NK.size(0), rows_RD.size(1)}, rows_RD.options());
  if (has_cpu_kernel(rows_RD)) {
    with_element_type(rows_RD, [&]<class T>(T) { sum_rows_kernel<T>(rows_RD, rows_NK, weights_NK, out); });
    return out;
  }
  const at::ScalarType type = compute_type(rows_RD);
  at::Tensor sum = at::zeros(out.sizes(), out.options().dtype(type));
  for (std::int64_t k = 0; k < rows_NK.size(1); ++k) {
    const at::Tensor rows = rows_of_choice(rows_RD, rows_NK, k, type);
    sum += weights_NK.defined() ? rows * weights_NK.select(1, k).unsqueeze(1) : rows;
  }
  return out.copy_(sum);
}

struct CombineGradients {
  at::Tensor rows_RD, weights_NK;
};

template <class T>
void combine_backward_kernel(const at::Tensor& rows_RD, const at::Tensor& rows_NK, const at::Tensor& weights_NK, const at::Tensor& gradient_ND,
                             const CombineGradients& out) {
  const std::int64_t width = rows_RD.size(1), choices = rows_NK.size(1);
  const std::int64_t* const places = rows_NK.data_ptr<std::int64_t>();
  const float* const weights = weights_NK.data_ptr<float>();
  float* const weight_gradients = out.weights_NK.data_ptr<float>();
  cpu::parallel_for(0, rows_NK.size(0), kGrain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t token = first; token < last; ++token) {
      const T* const gradient = gradient_ND.data_ptr<T>() + token * width;
      for_each_choice(token, choices, places, weights, [&](std::int64_t choice, std::int64_t row, float weight) {
        const T* const values = rows_RD.data_ptr<T>() + row * width;
        T* const row_gradient = out.rows_RD.data_ptr<T>() + row * width;
        float product = 0.0F;
        for (std::int64_t i = 0; i < width; ++i) {
          product += static_cast<float>(gradient[i]) * static_cast<float>(values[i]);
          row_gradient[i] = static_cast<T>(weight * static_cast<float>(gradient[i]));
        }
        weight_gradients[choice] = product;
      });
    }
  });
}

CombineGradients combine_gradients(const at::Tensor& rows_RD, const ExpertOrder& order, const at::Tensor& weights_NK, const at::Tensor& gradient_ND) {
  CombineGradients out{at::empty(rows_RD.sizes(), rows_RD.options()), at::zeros(weights_NK.sizes(), weights_NK.options())};
  if (has_cpu_kernel(rows_RD)) {
    with_element_type(rows_RD, [&]<class T>(T) { combine_backward_kernel<T>(rows_RD, order.rows_NK, weights_NK, gradient_ND, out); });
    return out;
  }
  const at::ScalarType type = compute_type(rows_RD);
  const at::Tensor gradient = gradient_ND.to(type);
  for (std::int64_t k = 0; k < order.rows_NK.size(1); ++k) {
    const at::Tensor kept = order.rows_NK.select(1, k).ge(0).nonzero().squeeze(1);
    const at::Tensor rows = order.rows_NK.select(1, k).index_select(0, kept);
    out.weights_NK.select(1, k).copy_((rows_of_choice(rows_RD, order.rows_NK, k, type) * gradient).sum(1));
    out.rows_RD.index_copy_(0, rows, (gradient * weights_NK.select(1, k).unsqueeze(1)).index_select(0, kept).to(rows_RD.scalar_type()));
  }
  return out;
}

}  // namespace

ExpertOrder sort_by_expert(const at::Tensor& experts_NK, std::int64_t num_experts) {
  const at::Tensor chosen = experts_NK.cpu().contiguous();
  const std::int64_t* const experts = chosen.data_ptr<std::int64_t>();
  const std::int64_t count = chosen.numel(), choices = chosen.size(1);
  ExpertOrder order{{}, at::full(chosen.sizes(), -1, chosen.options()), std::vector<std::int64_t>(static_cast<std::size_t>(num_experts))};
  for (std::int64_t i = 0; i < count; ++i) {
    TESSERA_ASSERT(experts[i] < num_experts, "no such expert");
    if (experts[i] >= 0) ++order.rows_per_expert[static_cast<std::size_t>(experts[i])];
  }
  std::vector<std::int64_t> next(order.rows_per_expert.size());
  std::exclusive_scan(order.rows_per_expert.begin(), order.rows_per_expert.end(), next.begin(), std::int64_t{0});
  order.tokens_R = at::empty({std::reduce(order.rows_per_expert.begin(), order.rows_per_expert.end())}, chosen.options());
  for (std::int64_t i = 0; i < count; ++i) {
    if (experts[i] < 0) continue;
    const std::int64_t row = next[static_cast<std::size_t>(experts[i])]++;
    order.rows_NK.data_ptr<std::int64_t>()[i] = row;
    order.tokens_R.data_ptr<std::int64_t>()[row] = i / choices;
  }
  order.tokens_R = order.tokens_R.to(experts_NK.device());
  order.rows_NK = order.rows_NK.to(experts_NK.device());
  return order;
}

Variable gather_tokens(Tape& tape, const Variable& tokens_ND, const ExpertOrder& order) {
  Variable output = tape.variable(at::index_select(tokens_ND.value, 0, order.tokens_R));
  if (!tape.recording()) return output;
  output.rebuild = [tokens = tokens_ND.save(), indices = order.tokens_R] { return at::index_select(tokens.get(), 0, indices); };
  tape.record([rows = order.rows_NK, slot = tokens_ND.gradient, out = output.gradient] {
    if (out->empty() || slot == nullptr) return;
    slot->add_owned(sum_rows(out->take().contiguous(), rows, {}));
  });
  return output;
}

Variable combine_experts(Tape& tape, const Variable& rows_RD, const ExpertOrder& order, const Variable& weights_NK) {
  const at::Tensor rows = rows_RD.value.contiguous(), weights = weights_NK.value.contiguous();
  Variable output = tape.variable(sum_rows(rows, order.rows_NK, weights));
  tape.record([rows, weights, order, rows_slot = rows_RD.gradient, weights_slot = weights_NK.gradient, out = output.gradient] {
    if (out->empty()) return;
    CombineGradients gradients = combine_gradients(rows, order, weights, out->take().contiguous());
    if (rows_slot != nullptr) rows_slot->add_owned(std::move(gradients.rows_RD));
    if (weights_slot != nullptr) weights_slot->add_owned(std::move(gradients.weights_NK));
  });
  return output;
}

}  // namespace tessera::ops
