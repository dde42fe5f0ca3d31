#include "tessera/generate/key_value_cache.h"

#include <ATen/ops/empty.h>

#include "tessera/core/error.h"
#include "tessera/ops/kernel_types.h"

namespace tessera::generate {

KeyValueCache::KeyValueCache(const model::ModelSpec& spec, std::int64_t capacity, at::ScalarType dtype) {
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const auto storage = [&](std::int64_t width) { return at::empty({1, spec.num_key_value_heads, capacity, width}, dtype).transpose(1, 2); };
    layers_.push_back({storage(spec.head_dim), storage(spec.value_dim())});
  }
}

ops::Variable KeyValueCache::operator()(ops::Tape& tape, std::size_t layer, const model::Inputs&, const ops::Variable& query_BTHC,
                                        const ops::Variable& key_BTKC, const ops::Variable& value_BTKC, const ops::AttentionOptions& options) {
  TESSERA_ASSERT(!tape.recording() && query_BTHC.value.size(0) == 1, "the cache serves one sequence, without gradients");
  Layer& cache = layers_[layer];
  const std::int64_t tokens = key_BTKC.value.size(1);
  const std::int64_t total = length_ + tokens;
  cache.key_BSKC.narrow(1, length_, tokens).copy_(key_BTKC.value);
  cache.value_BSKC.narrow(1, length_, tokens).copy_(value_BTKC.value);
  const at::Tensor key = cache.key_BSKC.narrow(1, 0, total), value = cache.value_BSKC.narrow(1, 0, total);
  if (tokens == 1 && ops::has_cpu_kernel(key)) return tape.variable(ops::decode_attention(query_BTHC.value, key, value, {total}, options));
  ops::AttentionOptions shifted = options;
  shifted.query_start = length_;
  shifted.lengths = {};
  return ops::attention(tape, query_BTHC, {key, nullptr, nullptr}, {value, nullptr, nullptr}, shifted);
}

}  // namespace tessera::generate
