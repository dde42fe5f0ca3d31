#pragma once

#include "tessera/ops/cpu/activations.h"
#include "tessera/ops/tape.h"

namespace tessera::ops {

using cpu::Activation;

/// activation(gate) · up of a fused [N, 2F] projection (gate in the first F columns), giving [N, F] (SwiGLU, GeGLU; Shazeer 2020).
Variable gated_activation(Tape& tape, const Variable& gate_up, Activation activation);
/// gate · sigmoid(alpha · gate) · (up + 1) of an [N, 2F] projection whose columns alternate (gate, up, gate, up), gate clamped from above and up from
/// both sides by `limit`; [N, F] (gpt_oss).
Variable limited_gated_activation(Tape& tape, const Variable& gate_up, double alpha, double limit);
/// activation(input), elementwise on [N, F].
Variable plain_activation(Tape& tape, const Variable& input_NF, Activation activation);

/// sigmoid(logits_N1) · input_ND, each row by its own.
Variable sigmoid_gate(Tape& tape, const Variable& input_ND, const Variable& logits_N1);

}  // namespace tessera::ops
