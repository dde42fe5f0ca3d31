#pragma once

#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/model/parameter_store.h"
#include "tessera/model/parameter_table.h"

namespace tessera::test {

/// A box that is a whole checkpoint tensor.
inline model::Piece whole(std::string name, std::vector<std::int64_t> shape, std::int64_t row = 0, bool transposed = false) {
  return {std::move(name), shape, std::vector<std::int64_t>(shape.size(), 0), shape, row, transposed};
}

/// Four parameters in two units with everything a layout can hold: a fused projection of two tensors, a tensor stored transposed, a bias and a norm.
inline model::ParameterTable small_table() {
  model::ParameterTable table;
  table.num_units = 2;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape, std::int64_t unit, std::vector<model::Piece> pieces) {
    model::ParameterSpec spec;
    spec.name = std::move(name);
    spec.shape = std::move(shape);
    spec.unit = unit;
    spec.pieces = std::move(pieces);
    table.parameters.push_back(std::move(spec));
  };
  add("embedding.weight", {7, 5}, 0, {whole("model.embed.weight", {7, 5})});
  add("gate_up.weight", {6, 5}, 1, {whole("layers.0.gate.weight", {4, 5}), whole("layers.0.up.weight", {2, 5}, 4)});
  add("down.weight", {5, 6}, 1, {whole("layers.0.down.weight", {6, 5}, 0, true)});
  add("down.bias", {5}, 1, {whole("layers.0.down.bias", {5})});
  add("norm.weight", {5}, 1, {whole("model.norm.weight", {5})});
  return table;
}

inline model::ParameterStore::Options store_options(DType dtype, model::ParameterPredicate frozen = {}) {
  return {.compute_dtype = dtype, .trainable = true, .frozen = std::move(frozen)};
}

/// Writes `value(element)` into every element of every parameter's master (or gradient), counting elements through the table.
template <class Value>
void fill(at::Tensor flat, const model::FlatBuffer& buffer, const Value& value) {
  for (const model::FlatRange& range : buffer.ranges)
    for (std::int64_t i = 0; i < range.size; ++i) flat[range.begin + i].fill_(value(static_cast<std::int64_t>(range.parameter) * 1000 + i));
}

/// Distinct weights and gradients, the same at every call; of weights what the store holds.
inline void fill_weights(model::ParameterStore& store, double phase = 0.0) {
  for (model::FlatBuffer& buffer : store.buffers()) {
    const at::Tensor held = buffer.master.defined() ? buffer.master : buffer.compute_shard;
    const at::Tensor whole = at::zeros({buffer.num_elements()}, held.options());
    fill(whole, buffer, [&](std::int64_t i) { return std::sin(static_cast<double>(i) + phase); });
    held.copy_(whole.narrow(0, buffer.held.begin, buffer.held.size()));
  }
  store.refresh_compute();
}
inline void fill_gradients(model::ParameterStore& store, double phase = 0.0) {
  for (model::FlatBuffer& buffer : store.buffers())
    if (buffer.gradient.defined()) fill(buffer.gradient, buffer, [&](std::int64_t i) { return std::cos(1.7 * static_cast<double>(i) + phase); });
}

}  // namespace tessera::test
