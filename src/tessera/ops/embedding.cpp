#include "tessera/ops/embedding.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include "tessera/ops/cpu/embedding.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

at::Tensor forward(const at::Tensor& ids, const Parameter& parameter, double scale) {
  if (parameter.widened) {
    const at::Tensor rows = at::index_select(parameter.weight, 0, ids).to(at::kFloat);
    return scale == 1.0 ? rows : rows * scale;
  }
  const at::Tensor& table = parameter.weight;
  if (!has_cpu_kernel(table)) {
    const at::Tensor rows = at::index_select(table, 0, ids);
    return scale == 1.0 ? rows : (rows.to(compute_type(table)) * scale).to(table.scalar_type());
  }
  at::Tensor output = at::empty({ids.size(0), table.size(1)}, table.options());
  with_kernel_type(table, [&]<class T>(T) {
    cpu::embedding_forward<T>({.tokens = ids.size(0),
                               .width = table.size(1),
                               .vocabulary = table.size(0),
                               .ids = ids.data_ptr<std::int64_t>(),
                               .table = kernel_data<const T>(table),
                               .scale = static_cast<float>(scale),
                               .output = kernel_data<T>(output)});
  });
  return output;
}

void backward(const at::Tensor& ids, Parameter& table, double scale, const at::Tensor& gradient_ND) {
  if (!table.gradient_written) table.gradient.zero_();
  table.gradient_written = true;
  if (!has_cpu_kernel(gradient_ND)) {
    table.gradient.index_add_(0, ids, (gradient_ND.to(table.gradient.scalar_type()) * scale));
    return;
  }
  with_kernel_type(gradient_ND, [&]<class T>(T) {
    cpu::embedding_backward<T>({.tokens = ids.size(0),
                                .width = gradient_ND.size(1),
                                .vocabulary = table.gradient.size(0),
                                .ids = ids.data_ptr<std::int64_t>(),
                                .output_gradient = kernel_data<const T>(gradient_ND),
                                .scale = static_cast<float>(scale),
                                .table_gradient = table.gradient.data_ptr<float>()});
  });
}

}  // namespace

Variable embedding(Tape& tape, const at::Tensor& ids_N, Parameter& table, double scale) {
  Variable output = tape.variable(forward(ids_N, table, scale));
  tape.record([ids_N, &table, scale, out = output.gradient] {
    if (out->empty()) return;
    deliver_weight_gradient(table, [ids_N, &table, scale, gradient = out->take()] { backward(ids_N, table, scale, gradient); });
  });
  return output;
}

}  // namespace tessera::ops
