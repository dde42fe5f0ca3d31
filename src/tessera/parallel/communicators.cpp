#include "tessera/parallel/communicators.h"

namespace tessera::parallel {

comm::Communicator& Communicators::get(mesh::AxisSet axes) { return make(mesh_.group(axes), mesh::to_string(axes)); }

comm::Communicator& Communicators::get(mesh::AxisSet axes, std::int64_t size) {
  const std::vector<std::int64_t> group = mesh_.group(axes);
  const auto first = group.begin() + mesh_.index(axes) / size * size;
  return make({first, first + size}, mesh::to_string(axes) + " (" + std::to_string(size) + ")");
}

comm::Communicator& Communicators::pair(mesh::AxisSet axes, std::size_t first, std::size_t second) {
  const std::vector<std::int64_t> group = mesh_.group(axes);
  return make({group[first], group[second]}, mesh::to_string(axes) + " (2)");
}

comm::Communicator& Communicators::channel(mesh::AxisSet axes, const std::string& kind) {
  return make(mesh_.group(axes), mesh::to_string(axes) + " " + kind, kind);
}

comm::Communicator& Communicators::make(std::vector<std::int64_t> members, const std::string& name, const std::string& kind) {
  std::pair key(std::move(members), kind);
  const auto found = made_.find(key);
  if (found != made_.end()) return *found->second;
  auto made = key.first.size() == 1 ? comm::self_communicator(mesh_.rank()) : backend_.communicator(key.first, name);
  return *made_.emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace tessera::parallel
