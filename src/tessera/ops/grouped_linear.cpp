#include "tessera/ops/grouped_linear.h"

#include <ATen/ops/empty.h>

#include <numeric>

#include "tessera/core/error.h"
#include "tessera/ops/linear.h"

namespace tessera::ops {
namespace {

using Rows = std::vector<std::int64_t>;

/// Calls fn(expert, first row, number of rows) for every expert that has rows.
template <class Function>
void for_each_group(const Rows& rows, const Function& fn) {
  std::int64_t first = 0;
  for (std::size_t expert = 0; expert < rows.size(); ++expert) {
    if (rows[expert] > 0) fn(static_cast<std::int64_t>(expert), first, rows[expert]);
    first += rows[expert];
  }
}

at::Tensor stacked_matrices(const at::Tensor& weight, const Rows& rows, std::int64_t inputs) {
  return weight.view({static_cast<std::int64_t>(rows.size()), -1, inputs});
}

at::Tensor stacked_vectors(const at::Tensor& bias, const Rows& rows) { return bias.view({static_cast<std::int64_t>(rows.size()), -1}); }

at::Tensor output_of(const at::Tensor& input_NI, const at::Tensor& weight_EOI, const at::Tensor& bias_EO, const Rows& rows) {
  at::Tensor output = at::empty({input_NI.size(0), weight_EOI.size(1)}, input_NI.options());
  for_each_group(rows, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    at::Tensor block = output.narrow(0, first, count);
    matmul_nt_out(block, input_NI.narrow(0, first, count), weight_EOI.select(0, expert));
    if (bias_EO.defined()) block.add_(bias_EO.select(0, expert));
  });
  return output;
}

at::Tensor input_gradient(const at::Tensor& gradient_NO, const at::Tensor& weight_EOI, const Rows& rows) {
  at::Tensor output = at::empty({gradient_NO.size(0), weight_EOI.size(2)}, gradient_NO.options());
  for_each_group(rows, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    at::Tensor block = output.narrow(0, first, count);
    matmul_nn_out(block, gradient_NO.narrow(0, first, count), weight_EOI.select(0, expert));
  });
  return output;
}

/// Calls add(expert's part, first row, number of rows) for every expert with rows. A part is a parameter whose accumulator is the expert's range of
/// `stacked_gradient`; the ranges that the first gradient of a step would leave unwritten are cleared.
template <class Function>
void accumulate(Parameter& parameter, const at::Tensor& stacked_gradient, const Rows& rows, const Function& add) {
  for (std::size_t expert = 0; expert < rows.size(); ++expert)
    if (rows[expert] == 0 && !parameter.gradient_written) stacked_gradient.select(0, static_cast<std::int64_t>(expert)).zero_();
  for_each_group(rows, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    Parameter part;
    part.gradient = stacked_gradient.select(0, expert);
    part.trainable = true;
    part.gradient_written = parameter.gradient_written;
    add(part, first, count);
  });
  parameter.gradient_written = true;
}

void deliver_gradients(Parameter& weight, Parameter* bias, const at::Tensor& gradient_NO, const Saved& saved_input, const Rows& rows) {
  deliver_weight_gradient(weight, [&weight, gradient_NO, saved_input, rows] {
    const at::Tensor input_NI = saved_input.get();
    accumulate(weight, stacked_matrices(weight.gradient, rows, input_NI.size(1)), rows, [&](Parameter& part, std::int64_t first, std::int64_t count) {
      accumulate_weight_gradient(part, gradient_NO.narrow(0, first, count), input_NI.narrow(0, first, count));
    });
  });
  if (bias == nullptr) return;
  deliver_weight_gradient(*bias, [bias, gradient_NO, rows] {
    accumulate(*bias, stacked_vectors(bias->gradient, rows), rows,
               [&](Parameter& part, std::int64_t first, std::int64_t count) { deliver_bias_gradient(part, gradient_NO.narrow(0, first, count)); });
  });
}

}  // namespace

Variable grouped_linear(Tape& tape, const Variable& input_NI, Parameter& weight, Parameter* bias, const std::vector<std::int64_t>& rows) {
  const std::int64_t inputs = input_NI.value.size(1);
  TESSERA_ASSERT(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == input_NI.value.size(0), "every row belongs to an expert");
  Variable output = tape.variable(output_of(input_NI.value, stacked_matrices(weight.weight, rows, inputs),
                                            bias != nullptr ? stacked_vectors(bias->weight, rows) : at::Tensor(), rows));
  const bool keeps_input = tape.recording() && weight.trainable;
  tape.record([&weight, bias, inputs, rows, slot = input_NI.gradient, out = output.gradient, saved = keeps_input ? input_NI.save() : Saved()] {
    if (out->empty()) return;
    const at::Tensor gradient_NO = out->take();
    deliver_gradients(weight, bias, gradient_NO, saved, rows);
    if (slot != nullptr) slot->add_owned(input_gradient(gradient_NO, stacked_matrices(weight.weight, rows, inputs), rows));
  });
  return output;
}

}  // namespace tessera::ops
