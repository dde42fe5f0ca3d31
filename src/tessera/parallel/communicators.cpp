#include "tessera/parallel/communicators.h"

namespace tessera::parallel {

comm::Communicator& Communicators::get(mesh::AxisSet axes) {
  std::vector<std::int64_t> members = mesh_.group(axes);
  const auto found = by_members_.find(members);
  if (found != by_members_.end()) return *found->second;
  auto made = members.size() == 1 ? comm::self_communicator(mesh_.rank()) : backend_.communicator(members, mesh::to_string(axes));
  return *by_members_.emplace(std::move(members), std::move(made)).first->second;
}

}  // namespace tessera::parallel
