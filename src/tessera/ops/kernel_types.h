#pragma once

#include <ATen/core/Tensor.h>

#include <type_traits>

#include "tessera/core/error.h"
#include "tessera/ops/cpu/bfloat16.h"

namespace tessera::ops {

/// Whether the hand-written CPU kernels take this tensor. Everything else (fp64 reference runs, GPUs) goes through ATen composites.
inline bool has_cpu_kernel(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16);
}

/// The tensor's elements as kernels see them; null for an undefined tensor.
template <class T>
T* kernel_data(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  if constexpr (std::is_same_v<std::remove_const_t<T>, cpu::bfloat16>) {
    TESSERA_ASSERT(tensor.scalar_type() == at::kBFloat16, "the kernel wants bfloat16");
    return reinterpret_cast<T*>(tensor.data_ptr<at::BFloat16>());
  } else {
    return tensor.data_ptr<std::remove_const_t<T>>();
  }
}

/// Calls fn(T{}) with T = float or cpu::bfloat16, whichever the tensor holds.
template <class Function>
void with_kernel_type(const at::Tensor& tensor, const Function& fn) {
  if (tensor.scalar_type() == at::kBFloat16) {
    fn(cpu::bfloat16{});
  } else {
    fn(float{});
  }
}

/// fp32 for half-width types, the type itself otherwise: what composites compute in.
inline at::ScalarType compute_type(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kBFloat16 || type == at::kHalf ? at::kFloat : type;
}

}  // namespace tessera::ops
