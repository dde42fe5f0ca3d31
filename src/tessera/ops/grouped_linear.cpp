#include "tessera/ops/grouped_linear.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "tessera/core/error.h"
#include "tessera/ops/cpu/expert_gemm.h"
#include "tessera/ops/linear.h"

namespace tessera::ops {
namespace {

using Rows = std::vector<std::int64_t>;

/// Consecutive experts, and the first row of the first one.
struct Part {
  std::size_t begin = 0, end = 0;
  std::int64_t first_row = 0;
};

/// One part for each thread, of about as many rows. When an expert alone has more than a thread's share, one part: its products then use all threads.
std::vector<Part> parts_of(const Rows& rows, std::int64_t num_threads) {
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (num_threads == 1 || total == 0 || *std::ranges::max_element(rows) * num_threads > total) return {{0, rows.size(), 0}};
  std::vector<Part> parts{{0, 0, 0}};
  std::int64_t done = 0;
  for (const std::int64_t count : rows) {
    if (done * num_threads >= total * static_cast<std::int64_t>(parts.size())) parts.push_back({parts.back().end, parts.back().end, done});
    done += count;
    ++parts.back().end;
  }
  return parts;
}

/// Calls fn(expert, first row, number of rows) for every expert that has rows, several experts at once: small products one by one leave threads
/// idle.
template <class Function>
void for_each_group(const at::Tensor& operand, const Rows& rows, const Function& fn) {
  const std::vector<Part> parts = parts_of(rows, operand.device().is_cpu() ? at::get_num_threads() : 1);
  at::parallel_for(0, static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) {
      const Part& part = parts[static_cast<std::size_t>(number)];
      std::int64_t first = part.first_row;
      for (std::size_t expert = part.begin; expert < part.end; ++expert) {
        if (rows[expert] > 0) fn(static_cast<std::int64_t>(expert), first, rows[expert]);
        first += rows[expert];
      }
    }
  });
}

/// Whether the kernels for few rows make an expert's product: where threads have experts of their own and a tile is wide enough to pay. With fewer
/// rows, and with more, a GEMM does better.
bool has_few_rows(const at::Tensor& rows, const at::Tensor& other) {
  constexpr std::int64_t kFewest = 16, kMost = 192;
  const auto fits = [](const at::Tensor& tensor) { return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous(); };
  return fits(rows) && fits(other) && rows.size(0) >= kFewest && rows.size(0) <= kMost && cpu::best_isa() == cpu::Isa::Avx512 &&
         (at::in_parallel_region() || at::get_num_threads() == 1);
}

void forward_of(at::Tensor& block_NO, const at::Tensor& input_NI, const at::Tensor& weight_OI) {
  if (!has_few_rows(input_NI, weight_OI)) return matmul_nt_out(block_NO, input_NI, weight_OI);
  cpu::expert_forward({.rows = input_NI.size(0),
                       .inputs = weight_OI.size(1),
                       .outputs = weight_OI.size(0),
                       .input = input_NI.data_ptr<float>(),
                       .weight = weight_OI.data_ptr<float>(),
                       .output = block_NO.data_ptr<float>()});
}

void input_gradient_of(at::Tensor& block_NI, const at::Tensor& gradient_NO, const at::Tensor& weight_OI) {
  if (!has_few_rows(gradient_NO, weight_OI)) return matmul_nn_out(block_NI, gradient_NO, weight_OI);
  cpu::expert_input_gradient({.rows = gradient_NO.size(0),
                              .inputs = weight_OI.size(1),
                              .outputs = weight_OI.size(0),
                              .gradient = gradient_NO.data_ptr<float>(),
                              .weight = weight_OI.data_ptr<float>(),
                              .input_gradient = block_NI.data_ptr<float>()});
}

void weight_gradient_of(Parameter& part, const at::Tensor& gradient_NO, const at::Tensor& input_NI) {
  if (!has_few_rows(gradient_NO, input_NI)) return accumulate_weight_gradient(part, gradient_NO, input_NI);
  cpu::expert_weight_gradient({.rows = gradient_NO.size(0),
                               .inputs = input_NI.size(1),
                               .outputs = gradient_NO.size(1),
                               .gradient = gradient_NO.data_ptr<float>(),
                               .input = input_NI.data_ptr<float>(),
                               .weight_gradient = part.gradient.data_ptr<float>(),
                               .accumulate = part.gradient_written});
}

at::Tensor stacked_matrices(const at::Tensor& weight, const Rows& rows, std::int64_t inputs) {
  return weight.view({static_cast<std::int64_t>(rows.size()), -1, inputs});
}

at::Tensor stacked_vectors(const at::Tensor& bias, const Rows& rows) { return bias.view({static_cast<std::int64_t>(rows.size()), -1}); }

at::Tensor output_of(const at::Tensor& input_NI, const at::Tensor& weight_EOI, const at::Tensor& bias_EO, const Rows& rows) {
  at::Tensor output = at::empty({input_NI.size(0), weight_EOI.size(1)}, input_NI.options());
  for_each_group(output, rows, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    at::Tensor block = output.narrow(0, first, count);
    forward_of(block, input_NI.narrow(0, first, count), weight_EOI.select(0, expert));
    if (bias_EO.defined()) block.add_(bias_EO.select(0, expert));
  });
  return output;
}

at::Tensor input_gradient(const at::Tensor& gradient_NO, const at::Tensor& weight_EOI, const Rows& rows) {
  at::Tensor output = at::empty({gradient_NO.size(0), weight_EOI.size(2)}, gradient_NO.options());
  for_each_group(output, rows, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    at::Tensor block = output.narrow(0, first, count);
    input_gradient_of(block, gradient_NO.narrow(0, first, count), weight_EOI.select(0, expert));
  });
  return output;
}

/// Calls add(expert's part, first row, number of rows) for every expert with rows. A part is a parameter whose accumulator is the expert's range of
/// `stacked_gradient`; the ranges that the first gradient of a step would leave unwritten are cleared.
template <class Function>
void accumulate(Parameter& parameter, const at::Tensor& stacked_gradient, const Rows& rows, const Function& add) {
  for (std::size_t expert = 0; expert < rows.size(); ++expert)
    if (rows[expert] == 0 && !parameter.gradient_written) stacked_gradient.select(0, static_cast<std::int64_t>(expert)).zero_();
  for_each_group(stacked_gradient, rows, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
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
      weight_gradient_of(part, gradient_NO.narrow(0, first, count), input_NI.narrow(0, first, count));
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
