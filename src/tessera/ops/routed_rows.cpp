#include "tessera/ops/routed_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include <numeric>

#include "tessera/ops/cpu/routed_rows.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

at::Tensor indices(std::int64_t size) { return at::empty({size}, at::kLong); }

std::int64_t* data_of(const at::Tensor& tensor) { return tensor.data_ptr<std::int64_t>(); }

at::Tensor composite_sum(const at::Tensor& input_PD, const at::Tensor& weights, const RoutedRows& routed) {
  at::Tensor values = input_PD.to(compute_type(input_PD));
  const at::Tensor row_P = routed.row_P.to(values.device());
  if (weights.defined()) values = values * at::index_select(weights, 0, routed.pair_P.to(values.device())).unsqueeze(1);
  return at::zeros({routed.num_rows(), input_PD.size(1)}, values.options()).index_add_(0, row_P, values).to(input_PD.scalar_type());
}

/// [P, D] to [N, D].
at::Tensor sum_of_places(const at::Tensor& input_PD, const at::Tensor& weights, const RoutedRows& routed) {
  if (!has_cpu_kernel(input_PD)) return composite_sum(input_PD, weights, routed);
  at::Tensor output = at::empty({routed.num_rows(), input_PD.size(1)}, input_PD.options());
  with_kernel_type(input_PD, [&]<class T>(T) {
    cpu::sum_of_places<T>({.rows = routed.num_rows(),
                           .width = input_PD.size(1),
                           .starts = data_of(routed.start_N1),
                           .places = data_of(routed.place),
                           .weights = kernel_data<const float>(weights),
                           .input = kernel_data<const T>(input_PD),
                           .output = kernel_data<T>(output)});
  });
  return output;
}

/// [N, D] to [P, D], times the pairs' weights where there are any; with `partner_PD`, its scalar products with what is sent, by pair, into `dots`.
at::Tensor to_places(const at::Tensor& input_ND, const at::Tensor& weights, const RoutedRows& routed, const at::Tensor& partner_PD = {},
                     at::Tensor dots = {}) {
  if (!has_cpu_kernel(input_ND)) {
    const at::Tensor pair_P = routed.pair_P.to(input_ND.device());
    const at::Tensor rows = at::index_select(input_ND, 0, routed.row_P.to(input_ND.device()));
    if (!weights.defined()) return rows;
    const at::Tensor wide = rows.to(compute_type(rows));
    dots.index_copy_(0, pair_P, (wide * partner_PD).sum(1));
    return (wide * at::index_select(weights, 0, pair_P).unsqueeze(1)).to(rows.scalar_type());
  }
  at::Tensor output = at::empty({routed.num_places(), input_ND.size(1)}, input_ND.options());
  with_kernel_type(input_ND, [&]<class T>(T) {
    cpu::rows_to_places<T>({.count = routed.num_places(),
                            .width = input_ND.size(1),
                            .rows = data_of(routed.row_P),
                            .pairs = data_of(routed.pair_P),
                            .weights = kernel_data<const float>(weights),
                            .input = kernel_data<const T>(input_ND),
                            .output = kernel_data<T>(output),
                            .partner = kernel_data<const T>(partner_PD),
                            .dots = kernel_data<float>(dots)});
  });
  return output;
}

}  // namespace

RoutedRows route_rows(const std::vector<std::int64_t>& group_of_pair, const std::vector<std::int64_t>& num_pairs_of_row, std::int64_t num_groups) {
  RoutedRows routed{.rows_per_group = std::vector<std::int64_t>(static_cast<std::size_t>(num_groups)),
                    .row_P = {},
                    .pair_P = {},
                    .start_N1 = indices(static_cast<std::int64_t>(num_pairs_of_row.size()) + 1),
                    .place = indices(static_cast<std::int64_t>(group_of_pair.size()))};
  const auto goes_somewhere = [num_groups](std::int64_t group) { return group >= 0 && group < num_groups; };
  for (const std::int64_t group : group_of_pair)
    if (goes_somewhere(group)) ++routed.rows_per_group[static_cast<std::size_t>(group)];
  std::vector<std::int64_t> next(routed.rows_per_group.size());
  std::exclusive_scan(routed.rows_per_group.begin(), routed.rows_per_group.end(), next.begin(), std::int64_t{0});
  const std::int64_t num_places = std::accumulate(routed.rows_per_group.begin(), routed.rows_per_group.end(), std::int64_t{0});
  routed.row_P = indices(num_places);
  routed.pair_P = indices(num_places);
  std::int64_t *const row_P = data_of(routed.row_P), *const pair_P = data_of(routed.pair_P), *const start = data_of(routed.start_N1),
                      *const place = data_of(routed.place);
  std::int64_t pair = start[0] = 0;
  for (std::size_t row = 0; row < num_pairs_of_row.size(); ++row) {
    for (const std::int64_t end = pair + num_pairs_of_row[row]; pair < end; ++pair) {
      const std::int64_t group = group_of_pair[static_cast<std::size_t>(pair)];
      place[pair] = goes_somewhere(group) ? next[static_cast<std::size_t>(group)]++ : -1;
      if (place[pair] < 0) continue;
      row_P[place[pair]] = static_cast<std::int64_t>(row);
      pair_P[place[pair]] = pair;
    }
    start[row + 1] = pair;
  }
  return routed;
}

RoutedRows route_rows(const at::Tensor& group_NK, std::int64_t num_groups) {
  const at::Tensor flat = group_NK.cpu().contiguous();
  const std::int64_t* const groups = data_of(flat);
  return route_rows(std::vector<std::int64_t>(groups, groups + flat.numel()),
                    std::vector<std::int64_t>(static_cast<std::size_t>(group_NK.size(0)), group_NK.size(1)), num_groups);
}

Variable rows_to_places(Tape& tape, const Variable& input_ND, const RoutedRows& routed) {
  Variable output = tape.variable(to_places(input_ND.value, {}, routed));
  if (!tape.recording()) return output;
  output.rebuild = [routed, saved = input_ND.save()] { return to_places(saved.get(), {}, routed); };
  tape.record([routed, slot = input_ND.gradient, out = output.gradient] {
    if (!out->empty() && slot != nullptr) slot->add_owned(sum_of_places(out->take(), {}, routed));
  });
  return output;
}

Variable rows_from_places(Tape& tape, const Variable& input_PD, const Variable* weights, const RoutedRows& routed) {
  const at::Tensor factors = weights != nullptr ? weights->value.reshape({-1}) : at::Tensor();
  Variable output = tape.variable(sum_of_places(input_PD.value, factors, routed));
  if (!tape.recording()) return output;
  if (weights == nullptr) {
    tape.record([routed, slot = input_PD.gradient, out = output.gradient] {
      if (!out->empty() && slot != nullptr) slot->add_owned(to_places(out->take(), {}, routed));
    });
    return output;
  }
  tape.record([routed, factors, shape = weights->value.sizes().vec(), saved = input_PD.save(), slot = input_PD.gradient,
               weights_slot = weights->gradient, out = output.gradient] {
    if (out->empty()) return;
    at::Tensor dots = at::zeros({routed.place.size(0)}, factors.options());
    const at::Tensor gradient_PD = to_places(out->take(), factors, routed, saved.get(), dots);
    if (weights_slot != nullptr) weights_slot->add_owned(dots.view(shape));
    if (slot != nullptr) slot->add_owned(gradient_PD);
  });
  return output;
}

}  // namespace tessera::ops
