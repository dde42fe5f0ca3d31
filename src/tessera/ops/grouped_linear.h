#pragma once

#include <cstdint>
#include <vector>

#include "tessera/ops/parameter.h"
#include "tessera/ops/tape.h"

namespace tessera::ops {

/// One linear operator per expert, each over its own rows: rows of `input_NI` are sorted by expert, rows_per_expert[e] of them (perhaps none) are
/// expert e's, and they sum to N. output_n = weight_e · input_n (+ bias_e).
/// `weight_EOI`: the experts' [O, I] matrices one after the other, as [E, O, I] or as [E · O, I]; `bias_EO`: [E, O] or [E · O]. I and E are the
/// input's and rows_per_expert's, and O follows. Types, gradients and queues as in ops::linear, but no widened weights. An expert without rows gets a
/// gradient of zeros, and so does every expert when N is 0.
Variable grouped_linear(Tape& tape, const Variable& input_NI, Parameter& weight_EOI, Parameter* bias_EO,
                        const std::vector<std::int64_t>& rows_per_expert);

}  // namespace tessera::ops
