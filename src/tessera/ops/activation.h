#pragma once

#include "tessera/ops/cpu/activations.h"
#include "tessera/ops/tape.h"

namespace tessera::ops {

using cpu::Activation;

/// activation(gate) · up of a fused [N, 2F] projection (gate in the first F columns), giving [N, F] (SwiGLU, GeGLU; Shazeer 2020).
Variable gated_activation(Tape& tape, const Variable& gate_up, Activation activation);
/// activation(input), elementwise on [N, F].
Variable plain_activation(Tape& tape, const Variable& input_NF, Activation activation);

}  // namespace tessera::ops
