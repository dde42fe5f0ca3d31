#include "tessera/comm/launch/launcher.h"

#include "tessera/comm/launch/mpirun.h"
#include "tessera/comm/launch/supervisor.h"

namespace tessera::launch {

int launch(const LaunchRequest& request) {
  const std::vector<std::string> command = mpirun_command(request.num_ranks, request.command);
  Supervisor supervisor(request);
  return supervisor.watch(start_child(command, rank_variables(request.num_ranks, supervisor.name())));
}

}  // namespace tessera::launch
