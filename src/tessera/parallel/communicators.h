#pragma once

#include <map>
#include <memory>
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

 private:
  comm::Communicator& make(std::vector<std::int64_t> members, const std::string& name);

  comm::Backend& backend_;
  const mesh::MeshContext& mesh_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<comm::Communicator>> by_members_;
};

}  // namespace tessera::parallel
