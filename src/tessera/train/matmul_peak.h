#pragma once

#include <ATen/core/ScalarType.h>

namespace tessera::train {

/// Floating-point operations per second that this machine's matrix product reaches in `dtype` on all threads of this process: the best of a few
/// products of 1024-sized matrices, about a tenth of a second. What MFU is measured against.
double measured_matmul_peak(at::ScalarType dtype);

}  // namespace tessera::train
