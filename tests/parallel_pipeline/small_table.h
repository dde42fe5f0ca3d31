#pragma once

#include <string>
#include <vector>

#include "tessera/model/parameter_table.h"

namespace tessera::test {

/// A llama-shaped table by hand: hidden size 8, 100 tokens.
inline model::ParameterTable small_table(int num_layers, bool tied) {
  using model::Role;
  model::ParameterTable result;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, Role role, std::int64_t unit) {
    const bool block = unit >= 1 && unit <= num_layers;
    model::ParameterSpec parameter{
        .name = name, .shape = std::move(shape), .role = role, .unit = unit, .layer = block ? unit - 1 : -1, .pieces = {}, .replicated = {}};
    parameter.pieces.push_back({.tensor = name, .tensor_shape = parameter.shape, .offset = {}, .size = parameter.shape});
    result.parameters.push_back(std::move(parameter));
  };
  add("model.embed_tokens.weight", {100, 8}, Role::Embedding, 0);
  for (int layer = 0; layer < num_layers; ++layer) {
    add("model.layers." + std::to_string(layer) + ".self_attn.o_proj.weight", {8, 8}, Role::Output, layer + 1);
    add("model.layers." + std::to_string(layer) + ".mlp.down_proj.weight", {8, 16}, Role::Down, layer + 1);
  }
  add("model.norm.weight", {8}, Role::Norm, num_layers + 1);
  if (!tied) add("lm_head.weight", {100, 8}, Role::Head, num_layers + 1);
  result.num_units = num_layers + 2;
  result.tied_head = tied;
  if (tied) result.tied_head_tensor = "lm_head.weight";
  result.base_prefix = "model.";
  return result;
}

}  // namespace tessera::test
