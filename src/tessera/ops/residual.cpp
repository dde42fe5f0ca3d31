#include "tessera/ops/residual.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>

#include <memory>

#include "tessera/core/error.h"
#include "tessera/ops/cpu/dropout.h"
#include "tessera/ops/dropout_factors.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::ops {
namespace {

using RowKeys = std::vector<std::uint64_t>;

std::shared_ptr<RowKeys> row_keys(const Dropout& options, std::int64_t tokens) {
  TESSERA_ASSERT(options.tokens != nullptr && std::ssize(*options.tokens) == tokens, "dropout needs the number of every token");
  auto keys = std::make_shared<RowKeys>();
  for (const TokenNumber& token : *options.tokens)
    keys->push_back(cpu::dropout_row_key(options.key, static_cast<std::uint64_t>(token.sample), 0, static_cast<std::uint64_t>(token.position)));
  return keys;
}

at::Tensor dropped(const at::Tensor& input, const RowKeys& keys, double probability) {
  if (!has_cpu_kernel(input)) {
    const auto type = compute_type(input);
    return at::mul(input.to(type), dropout_factors(keys, input.size(1), probability, input.options().dtype(type))).to(input.scalar_type());
  }
  const at::Tensor contiguous = input.contiguous();
  at::Tensor output = at::empty_like(contiguous);
  with_kernel_type(input, [&]<class T>(T) {
    cpu::dropout_add<T>({.rows = input.size(0),
                         .width = input.size(1),
                         .input = kernel_data<const T>(contiguous),
                         .row_keys = keys.data(),
                         .probability = static_cast<float>(probability),
                         .output = kernel_data<T>(output)});
  });
  return output;
}

}  // namespace

Variable dropout(Tape& tape, const Variable& input_ND, const Dropout& options) {
  if (!tape.training() || options.probability == 0.0) return input_ND;
  const auto keys = row_keys(options, input_ND.value.size(0));
  Variable output = tape.variable(dropped(input_ND.value, *keys, options.probability));
  tape.record([keys, probability = options.probability, slot = input_ND.gradient, out = output.gradient] {
    if (out->empty() || slot == nullptr) return;
    slot->add_owned(dropped(out->take(), *keys, probability));
  });
  return output;
}

Variable residual_add(Tape& tape, const Variable& residual_ND, const Variable& branch_ND, double multiplier, const Dropout& options) {
  const Variable branch = dropout(tape, branch_ND, options);
  at::Tensor sum = branch.value;
  if (multiplier != 1.0) sum.mul_(multiplier);
  sum.add_(residual_ND.value);
  Variable output = tape.variable(sum);
  tape.record([multiplier, residual = residual_ND.gradient, slot = branch.gradient, out = output.gradient] {
    if (out->empty()) return;
    const at::Tensor gradient = out->take();
    if (slot != nullptr) multiplier == 1.0 ? slot->add_shared(gradient) : slot->add_owned(at::mul(gradient, multiplier));
    if (residual != nullptr) residual->add_shared(gradient);
  });
  return output;
}

Variable add(Tape& tape, const Variable& a_ND, const Variable& b_ND) {
  Variable output = tape.variable(at::add(a_ND.value, b_ND.value));
  tape.record([a = a_ND.gradient, b = b_ND.gradient, out = output.gradient] {
    if (out->empty()) return;
    const at::Tensor gradient = out->take();
    if (a != nullptr) a->add_shared(gradient);
    if (b != nullptr) b->add_shared(gradient);
  });
  return output;
}

}  // namespace tessera::ops
