#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/comm/reduction.h"
#include "tessera/core/dtype.h"

namespace tessera::comm {

enum class OperationKind : std::uint8_t { AllReduce, ReduceScatter, AllGather, Broadcast, AllToAll, Send, Receive, Barrier, Setup };
inline constexpr std::size_t kNumOperationKinds = 9;
/// "all_reduce", "reduce_scatter", …
std::string_view to_string(OperationKind kind);

/// What a rank asked for. All ranks of a group must ask for the same (a message's receiver for what its sender sends), except the counts of an
/// all-to-all, which differ by nature.
struct OperationDescription {
  OperationKind kind{};
  DType dtype = DType::U8;
  DType wire = DType::U8;  ///< what travels
  ReduceOperation reduce = ReduceOperation::Sum;
  std::int32_t peer = -1;           ///< the root of a broadcast; the other end of a message; else -1
  std::int64_t elements = 0;        ///< of the whole tensor: Σ counts where there are counts
  std::uint64_t counts_digest = 0;  ///< of the counts of every rank, where all ranks must give the same ones
  std::int64_t bytes_sent = 0;      ///< by this rank, all peers together

  /// Whether this and another rank's description belong to one operation.
  bool matches(const OperationDescription& other) const;
};

/// "all_reduce(max) of 5 float32 as bfloat16", "broadcast from 0 of 12 int64".
std::string to_string(const OperationDescription& description);

/// Tells lists of counts apart (FNV-1a over their bytes).
std::uint64_t digest_of(std::span<const std::int64_t> counts);

}  // namespace tessera::comm
