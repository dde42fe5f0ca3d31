#include "tessera/comm/launch/mpirun.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::launch {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> find_on_path(std::string_view program) {
  const char* path = std::getenv("PATH");
  for (const std::string& directory : split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    fs::path candidate = fs::path(directory) / program;
    if (::access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate)) return candidate;
  }
  return std::nullopt;
}

/// MPICH's mpirun refuses Open MPI's options, and needs none of them.
bool is_open_mpi(const fs::path& mpirun) {
  std::string printed;
  const std::string command = "'" + mpirun.string() + "' --version 2>/dev/null </dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");  // NOLINT: the only command is a program that was found
  if (pipe == nullptr) return true;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) printed += static_cast<char>(c);
  ::pclose(pipe);
  return printed.find("Open MPI") != std::string::npos || printed.find("OpenRTE") != std::string::npos;
}

std::int64_t available_cores() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Between fork and exec: only system calls.
[[noreturn]] void become(char* const* command, char* const* variables, int output, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(command[0], command, variables);
  ::_exit(127);
}

}  // namespace

std::vector<std::string> mpirun_command(std::int64_t num_ranks, const std::vector<std::string>& rank_command) {
  const std::optional<fs::path> mpirun = find_on_path("mpirun");
  if (!mpirun)
    throw UserError({"", "there is no mpirun on PATH", "ranks on CPUs are started by MPI's own launcher",
                     "install it:  apt-get install openmpi-bin  (or: mpich)"});
  std::vector<std::string> command{mpirun->string(), "-n", std::to_string(num_ranks)};
  if (is_open_mpi(*mpirun)) {
    command.insert(command.end(), {"--oversubscribe", "--bind-to", "none"});
    if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
  }
  command.insert(command.end(), rank_command.begin(), rank_command.end());
  return command;
}

std::vector<std::string> rank_variables(std::int64_t num_ranks, const std::string& launcher_name) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  const auto set = [&](const std::string& name, const std::string& value, bool keep) {
    const auto is_it = [&](const std::string& variable) { return variable.starts_with(name + "="); };
    if (keep && std::ranges::any_of(variables, is_it)) return;
    std::erase_if(variables, is_it);
    variables.push_back(name + "=" + value);
  };
  set(kLauncherVariable, launcher_name, false);
  set("OMP_NUM_THREADS", std::to_string(std::max<std::int64_t>(1, available_cores() / num_ranks)), true);
  set("OMPI_MCA_mpi_yield_when_idle", "1", true);
  return variables;
}

ChildProcess start_child(const std::vector<std::string>& command, const std::vector<std::string>& variables) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Failure({"", fmt::format("cannot make a pipe: {}", std::strerror(errno)), "", ""});
  FileDescriptor reading(ends[0]);
  const FileDescriptor writing(ends[1]);
  ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> environment = pointers(variables);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw Failure({"", fmt::format("cannot start {}: {}", command[0], std::strerror(errno)), "", "end other processes and try again"});
  if (child == 0) become(arguments.data(), environment.data(), writing.get(), parent);
  return {child, std::move(reading)};
}

}  // namespace tessera::launch
