#include "tessera/parallel/communicators.h"

namespace tessera::parallel {

comm::Communicator& Communicators::get(mesh::AxisSet axes) { return make(mesh_.group(axes), mesh::to_string(axes)); }

comm::Communicator& Communicators::get(mesh::AxisSet axes, std::int64_t size) {
  const std::vector<std::int64_t> group = mesh_.group(axes);
  const auto first = group.begin() + mesh_.index(axes) / size * size;
  return make({first, first + size}, mesh::to_string(axes) + " (" + std::to_string(size) + ")");
}

comm::Communicator& Communicators::make(std::vector<std::int64_t> members, const std::string& name) {
  const auto found = by_members_.find(members);
  if (found != by_members_.end()) return *found->second;
  auto made = members.size() == 1 ? comm::self_communicator(mesh_.rank()) : backend_.communicator(members, name);
  return *by_members_.emplace(std::move(members), std::move(made)).first->second;
}

}  // namespace tessera::parallel
