#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/ops/tape.h"

namespace tessera::ops {

/// Host memory for tensors that backward asks for again in reverse order: each is copied out when it is kept, and copied back while the one kept
/// after it is used. Buffers are reused in the next step. On a CPU, whose memory is the host's own, it saves nothing, but it exercises the path that
/// a GPU takes.
class ActivationPool {
 public:
  /// Tensors that would take the pool beyond `most_bytes` stay where they are.
  explicit ActivationPool(std::int64_t most_bytes);
  ~ActivationPool();
  ActivationPool(const ActivationPool&) = delete;
  ActivationPool& operator=(const ActivationPool&) = delete;

  /// Takes the tensor; the result returns it, once, and starts copying back the one that was kept before it.
  std::function<at::Tensor()> keep(const at::Tensor& tensor);
  /// In use and free.
  std::int64_t bytes() const;

 private:
  struct Entry;
  at::Tensor take(const std::shared_ptr<Entry>& entry);
  static void start(Entry& entry);

  std::int64_t most_bytes_;
  std::vector<at::Tensor> free_;            ///< host buffers, flat bytes
  std::vector<std::weak_ptr<Entry>> kept_;  ///< oldest first; an entry that is no longer needed has expired, and its buffer is gone
};

/// ops::checkpoint whose input waits in `pool`, which must outlive the tape.
Variable checkpoint(Tape& tape, const Variable& input, const std::function<Variable(Tape&, const Variable&)>& segment, ActivationPool& pool);

}  // namespace tessera::ops
