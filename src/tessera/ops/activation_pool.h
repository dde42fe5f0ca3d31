#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "tessera/ops/tape.h"

namespace tessera::ops {

/// Host memory for tensors that backward will ask for again, in the opposite order: each is copied out when it is kept, and on its way back while the
/// one after it is used. Memory is kept for the next step. On a CPU the device's memory is the host's own, and nothing is saved: it is what a device
/// does, on a machine without one.
class ActivationPool {
 public:
  /// Tensors that would take the pool beyond `most_bytes` stay where they are.
  explicit ActivationPool(std::int64_t most_bytes);
  ~ActivationPool();
  ActivationPool(const ActivationPool&) = delete;
  ActivationPool& operator=(const ActivationPool&) = delete;

  /// Gives the tensor away; the result gives it back, once, and starts bringing back the one that was kept before it.
  std::function<at::Tensor()> keep(const at::Tensor& tensor);
  /// In use and free.
  std::int64_t bytes() const;

 private:
  struct Entry;
  at::Tensor take(const std::shared_ptr<Entry>& entry);
  static void start(Entry& entry);

  std::int64_t most_bytes_;
  std::vector<at::Tensor> free_;            ///< host buffers, flat bytes
  std::vector<std::weak_ptr<Entry>> kept_;  ///< oldest first; what nobody asks for any more has expired, and its buffer is gone
};

/// ops::checkpoint whose input waits in `pool`, which must outlive the tape.
Variable checkpoint(Tape& tape, const Variable& input, const std::function<Variable(Tape&, const Variable&)>& segment, ActivationPool& pool);

}  // namespace tessera::ops
