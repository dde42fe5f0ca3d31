#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/checkpoint/box.h"

namespace tessera::checkpoint {

/// Memory that a save in the background reads from while training goes on. It stays allocated from one save to the next.
class Staging {
 public:
  /// Copies what the boxes hold, on all threads; they point at the copies afterwards, which the next call overwrites.
  void copy(const std::vector<TensorBox*>& boxes);

 private:
  at::Tensor memory_;
};

}  // namespace tessera::checkpoint
