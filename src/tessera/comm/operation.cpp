#include "tessera/comm/operation.h"

#include <fmt/format.h>

#include <array>

#include "tessera/core/random.h"

namespace tessera::comm {
namespace {

constexpr std::array<std::string_view, kNumOperationKinds> kNames{"all_reduce", "reduce_scatter", "all_gather", "broadcast",          "all_to_all",
                                                                  "send",       "receive",        "barrier",    "making of the group"};
constexpr std::array<std::string_view, 3> kReductions{"sum", "max", "min"};

bool is_message(OperationKind kind) { return kind == OperationKind::Send || kind == OperationKind::Receive; }

}  // namespace

std::string_view to_string(OperationKind kind) { return kNames.at(static_cast<std::size_t>(kind)); }

bool OperationDescription::matches(const OperationDescription& other) const {
  if (dtype != other.dtype || wire != other.wire) return false;
  if (is_message(kind) && is_message(other.kind)) return kind != other.kind && elements == other.elements;
  if (kind != other.kind || reduce != other.reduce || peer != other.peer) return false;
  return kind == OperationKind::AllToAll || (elements == other.elements && counts_digest == other.counts_digest);
}

std::string to_string(const OperationDescription& description) {
  std::string text(to_string(description.kind));
  if (description.kind == OperationKind::AllReduce) text += fmt::format("({})", kReductions.at(static_cast<std::size_t>(description.reduce)));
  if (description.kind == OperationKind::Broadcast) text += fmt::format(" from {}", description.peer);
  if (description.kind == OperationKind::Send) text += fmt::format(" to {}", description.peer);
  if (description.kind == OperationKind::Receive) text += fmt::format(" from {}", description.peer);
  if (description.kind == OperationKind::Barrier || description.kind == OperationKind::Setup) return text;
  text += fmt::format(" of {} {}", description.elements, torch_name(description.dtype));
  if (description.wire != description.dtype) text += fmt::format(" as {}", torch_name(description.wire));
  return text;
}

std::uint64_t digest_of(std::span<const std::int64_t> counts) {
  return hash_name({reinterpret_cast<const char*>(counts.data()), counts.size_bytes()});
}

}  // namespace tessera::comm
