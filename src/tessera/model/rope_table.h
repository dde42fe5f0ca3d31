#pragma once

#include "tessera/model/inputs.h"
#include "tessera/model/spec.h"
#include "tessera/ops/heads.h"

namespace tessera::model {

/// Cosines and sines of every token of a batch, [B·T, rotary_dim / 2], in `dtype` (fp32 or fp64), computed in double. Where the frequencies depend
/// on the length (dynamic, longrope), each document's own unpadded length decides, never the batch it sits in.
ops::RopeTable rope_table(const RopeSpec& spec, const Inputs& inputs, at::ScalarType dtype);

}  // namespace tessera::model
