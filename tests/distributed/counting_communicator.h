#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/comm/operation.h"

namespace tessera::comm {

/// What went through communicators, by kind of operation.
struct Traffic {
  std::array<std::int64_t, kNumOperationKinds> operations{};
  std::array<std::int64_t, kNumOperationKinds> bytes_sent{};

  std::int64_t num(OperationKind kind) const { return operations[static_cast<std::size_t>(kind)]; }
  std::int64_t bytes(OperationKind kind) const { return bytes_sent[static_cast<std::size_t>(kind)]; }
};

/// Adds every operation to `traffic`, which must outlive it and which one thread reads and writes.
std::unique_ptr<Communicator> counting_communicator(std::unique_ptr<Communicator> inner, Traffic& traffic);

}  // namespace tessera::comm
