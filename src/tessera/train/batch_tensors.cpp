#include "tessera/train/batch_tensors.h"

#include <ATen/ops/tensor.h>

namespace tessera::train {

BatchTensors to_tensors(const data::Batch& batch) {
  const auto matrix = [&](const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong).view({batch.rows, batch.length}); };
  return {{matrix(batch.input_ids), matrix(batch.position_ids), batch.lengths, batch.numbers, batch.document_starts}, matrix(batch.labels)};
}

}  // namespace tessera::train
