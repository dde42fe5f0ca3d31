#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/mesh/mesh_context.h"

namespace tessera::parallel {

/// The communicators of one rank's groups: one per group of ranks, made when first asked for and kept. Making one is collective over its group, so
/// ranks ask in the same order. Axes of size 1 do not matter: dp_shard and dp_shard_cp are one communicator while cp is 1.
class Communicators {
 public:
  /// Both must outlive it.
  Communicators(comm::Backend& backend, const mesh::MeshContext& mesh) : backend_(backend), mesh_(mesh) {}
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  comm::Communicator& get(mesh::AxisSet axes);
  /// Part of a group: `size` consecutive members, this rank among them; `size` divides the group's.
  comm::Communicator& get(mesh::AxisSet axes, std::int64_t size);
  /// Two members of a group, by their places in it, this rank being one of them.
  comm::Communicator& pair(mesh::AxisSet axes, std::size_t first, std::size_t second);
  /// One more communicator over a group, for messages of one kind.
  comm::Communicator& channel(mesh::AxisSet axes, const std::string& kind);

 private:
  comm::Communicator& make(std::vector<std::int64_t> members, const std::string& name, const std::string& kind = "");

  comm::Backend& backend_;
  const mesh::MeshContext& mesh_;
  std::map<std::pair<std::vector<std::int64_t>, std::string>, std::unique_ptr<comm::Communicator>> made_;  ///< by members and kind
};

}  // namespace tessera::parallel
