#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm/launch/protocol.h"

/// The MPI launcher as a child process. Internal to this folder.
namespace tessera::launch {

/// mpirun with its arguments, for ranks on this host. UserError when PATH has none.
std::vector<std::string> mpirun_command(std::int64_t num_ranks, const std::vector<std::string>& rank_command);

/// This process's environment for the ranks: the socket's name, threads, yielding.
std::vector<std::string> rank_variables(std::int64_t num_ranks, const std::string& launcher_name);

struct ChildProcess {
  pid_t pid = -1;
  FileDescriptor output;  ///< what it prints, on either stream; non-blocking
};
/// Starts `command` in a process group of its own, so that Ctrl-C reaches this process alone, reading nothing and dying with this process.
/// Failure when it cannot be started.
ChildProcess start_child(const std::vector<std::string>& command, const std::vector<std::string>& variables);

}  // namespace tessera::launch
