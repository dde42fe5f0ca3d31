#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/support.h"
#include "tessera/model/causal_lm.h"
#include "tessera/model/inputs.h"

/// What the decoder's tests share: rows of random tokens, and one training pass over them.
namespace tessera::model::test {
using namespace tessera::test;

/// One row before padding: documents laid end to end, each with its last label ignored.
struct Row {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> positions;
  std::vector<std::int64_t> starts;
  std::int64_t number = 0;
};

/// A document of random ids below 300; `seed` decides them.
Row document(std::int64_t length, unsigned seed, std::int64_t number = 0);
Row pack(const std::vector<Row>& documents);

struct Batch {
  Inputs inputs;
  at::Tensor labels_BT;
};
/// Rows padded with `pad_id` to `width` (0: the longest row). With `packed` the rows' document starts are part of the batch.
Batch make_batch(const std::vector<Row>& rows, std::int64_t width = 0, std::int64_t pad_id = 0, bool packed = false);

struct Pass {
  double loss = 0.0;
  std::vector<at::Tensor> gradients;  ///< of every parameter in table order; undefined when frozen
};
/// Forward and backward over microbatches: the gradient of `scale` times the summed loss.
Pass run(CausalLM& model, const std::vector<Batch>& microbatches, std::uint64_t step = 0, double scale = 0.01);

bool same_bits(const Pass& a, const Pass& b);
/// The largest error of loss and gradients, each relative to its largest element, and of which quantity: "" within tolerance.
std::string difference(const CausalLM& model, const Pass& actual, const Pass& expected, double tolerance);

}  // namespace tessera::model::test
