#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace tessera::ops::cpu::TESSERA_KERNEL_ISA {

/// Uninitialised numbers on a 64-byte boundary. (std::vector would share its inline functions between instruction sets.)
template <class Number>
class ScratchOf {
 public:
  explicit ScratchOf(std::int64_t size) : data_(static_cast<Number*>(std::aligned_alloc(64, bytes(size)))) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  ~ScratchOf() { std::free(data_); }
  ScratchOf(const ScratchOf&) = delete;
  ScratchOf& operator=(const ScratchOf&) = delete;
  Number* data() const { return data_; }

 private:
  static std::size_t bytes(std::int64_t size) { return (static_cast<std::size_t>(size) * sizeof(Number) + 127) / 64 * 64; }
  Number* data_;
};

using Scratch = ScratchOf<float>;

}  // namespace tessera::ops::cpu::TESSERA_KERNEL_ISA
