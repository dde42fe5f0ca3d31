#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <random>
#include <string>
#include <vector>

#include "support/support.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/model/causal_lm.h"

/// What the generation tests share: the golden models, and a forward pass without a cache.
namespace tessera::generate::test {
using namespace tessera::test;

inline model::CausalLM golden_model(const std::string& name, DType dtype = DType::F32) {
  return model::CausalLM::from_pretrained(tessera::test::test_data("goldens/" + name), {.dtype = dtype});
}

inline std::vector<data::TokenId> random_ids(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<data::TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<data::TokenId>(generator() % 300));
  return ids;
}

/// Logits [T, V] of one text, all positions at once.
inline at::Tensor full_logits(const model::CausalLM& model, const std::vector<data::TokenId>& ids) {
  const auto length = static_cast<std::int64_t>(ids.size());
  const at::Tensor tensor = at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), at::kLong).view({1, length});
  ops::Tape tape(ops::Tape::Mode::Inference);
  return model.decoder->logits(model.decoder->hidden(tape, {tensor, at::arange(length, at::kLong).view({1, length}), {length}, {0}, {}}).states.value,
                               length);
}

}  // namespace tessera::generate::test
