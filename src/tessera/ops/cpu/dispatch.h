#pragma once

#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {

/// One kernel for one instruction set, keyed by the type of its argument struct; specialised in kernels/*.cpp.
template <Isa isa, class Args>
struct Kernel {
  static void run(const Args& args);
};

}  // namespace tessera::ops::cpu

/// At the end of a file in kernels/: `function(args)` is what Kernel<this instruction set, Args> runs.
#define TESSERA_KERNEL(function, ...)                                               \
  template <>                                                                       \
  void Kernel<Isa::TESSERA_KERNEL_ISA, __VA_ARGS__>::run(const __VA_ARGS__& args) { \
    TESSERA_KERNEL_ISA::function(args);                                             \
  }
