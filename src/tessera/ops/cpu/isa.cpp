#include "tessera/ops/cpu/isa.h"

namespace tessera::ops::cpu {
namespace {

bool has_avx2() {
#ifdef TESSERA_X86_KERNELS
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool has_avx512() {
#ifdef TESSERA_X86_KERNELS
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

}  // namespace

std::vector<Isa> available_isas() {
  std::vector<Isa> isas{Isa::Baseline};
  if (has_avx2()) isas.push_back(Isa::Avx2);
  if (has_avx512()) isas.push_back(Isa::Avx512);
  return isas;
}

Isa best_isa() {
  static const Isa best = available_isas().back();
  return best;
}

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::Avx2:
      return "avx2";
    case Isa::Avx512:
      return "avx512";
    case Isa::Baseline:
      break;
  }
  return "baseline";
}

}  // namespace tessera::ops::cpu
