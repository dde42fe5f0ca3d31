#pragma once

#include <set>
#include <string>

#include "tessera/formats/tensor_source.h"
#include "tessera/model/parameter_store.h"

namespace tessera::model {

/// Fills the store from a checkpoint: masters in full precision and the compute weights rounded from them, or the compute weights alone where there
/// are no masters. Fused, separate and transposed tensors are read piece by piece straight into their place, on all threads; besides the store only a
/// few MiB are needed (an expert for each thread, where the checkpoint stacks them transposed). A progress bar appears on a terminal when it takes
/// more than two seconds.
///
/// Before anything is read, one UserError lists every tensor that is missing, surplus, of another shape or of a type that does not convert. Not
/// counted as surplus: buffers older versions of transformers saved (rotary inv_freq, attention masks), layers that predict further tokens, a tied
/// head that equals the embedding (one that differs is an error), and tensors that the table says are elsewhere.
void load_weights(ParameterStore& store, const formats::TensorSource& source);

/// Names of the parameters that are matrices and that the checkpoint holds wholly in bf16.
std::set<std::string> matrices_in_bfloat16(const ParameterTable& table, const formats::TensorSource& source);

/// The check alone: it reads no weights and needs no store.
void check_weights(const ParameterTable& table, const formats::TensorSource& source);

}  // namespace tessera::model
