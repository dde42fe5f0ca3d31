#pragma once

#include <string_view>
#include <vector>

namespace tessera::ops::cpu {

/// Instruction sets the kernels are compiled for. `Baseline` is whatever the compiler emits by default (SSE2 on x86-64, NEON on aarch64).
/// `Avx2` also needs FMA and F16C; `Avx512` needs F, BW, DQ and VL.
enum class Isa { Baseline, Avx2, Avx512 };

/// The widest one that this processor has and this binary contains; found out once.
Isa best_isa();
/// All that can run here, narrowest first (for tests and benchmarks).
std::vector<Isa> available_isas();
std::string_view to_string(Isa isa);

}  // namespace tessera::ops::cpu
