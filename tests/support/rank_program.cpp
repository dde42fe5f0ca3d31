// What the tests of the launcher start: a launcher, or a rank that behaves or fails as it is told.
//   rank_program launch N LOG_DIRECTORY|- ACTION...     launches N times:  rank_program rank LOG_DIRECTORY|- ACTION...
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tessera/comm/launch/launcher.h"
#include "tessera/comm/launch/rank_process.h"
#include "tessera/core/error.h"
#include "tessera/core/interrupt.h"
#include "tessera/core/logging.h"

namespace {

using namespace std::chrono_literals;
using namespace tessera;
using Arguments = std::vector<std::string>;

std::optional<std::string> variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

/// Longer than any test waits.
void sleep_long() { std::this_thread::sleep_for(60s); }

/// Leaves "rank_3" with the process's and its parent's numbers in DIRECTORY, so that the test knows whom to look for.
void sign_in(const std::filesystem::path& directory, std::int64_t rank) {
  const auto file = directory / fmt::format("rank_{}", rank);
  std::ofstream(file.string() + ".new") << ::getpid() << " " << ::getppid();
  std::filesystem::rename(file.string() + ".new", file);
}

/// Waits for the signal that ends training, then leaves "saved_3".
int wait_for_signal(const std::filesystem::path& directory, std::int64_t rank) {
  const InterruptGuard guard;
  sign_in(directory, rank);
  for (int i = 0; i < 600 && guard.signal() == 0; ++i) std::this_thread::sleep_for(100ms);
  std::ofstream(directory / fmt::format("saved_{}", rank)) << guard.signal();
  return guard.signal() == 0 ? 1 : 0;
}

constexpr const char* kMistake = "recipe.yaml:14: it went wrong\n  fix:  mend it";

/// What this rank says when all fail: with "agree" the same; with "repeat" what rank 1 found, as the others tell it; with "differ" its own.
std::string complaint(const std::string& name, std::int64_t rank) {
  if (name == "differ") return fmt::format("error: mistake of rank {}", rank);
  return std::string("error: ") + (name == "repeat" && rank != 1 ? "rank 1: " : "") + kMistake;
}

/// mpirun ends all ranks when one has ended: each waits until the others have said theirs.
int fail_everywhere(const std::string& name, std::int64_t rank, launch::RankProcess& process) {
  std::this_thread::sleep_for(rank * 300ms);
  process.error(complaint(name, rank), 2);
  std::this_thread::sleep_for(2s - rank * 300ms);
  return 2;
}

/// ACTION…:  say | agree | repeat | differ | fail RANK STATUS [SIGNAL] | kill RANK SIGNAL | exit RANK STATUS | crash RANK | wait DIRECTORY |
///            sleep DIRECTORY
int act(const Arguments& action, const launch::RankEnvironment& self, launch::RankProcess& process) {
  const std::string& name = action.at(0);
  if (name == "say") {
    fmt::print("answer of rank {} of {}, {} threads, yielding {}\n", self.rank, self.world_size, variable("OMP_NUM_THREADS").value_or("?"),
               variable("OMPI_MCA_mpi_yield_when_idle").value_or("?"));
    log::note("a note of rank {}", self.rank);
    return 0;
  }
  if (name == "wait") return wait_for_signal(action.at(1), self.rank);
  if (name == "sleep") {
    sign_in(action.at(1), self.rank);
    sleep_long();
  }
  if (name == "agree" || name == "repeat" || name == "differ") return fail_everywhere(name, self.rank, process);
  if (self.rank != std::stoll(action.at(1))) sleep_long();
  std::this_thread::sleep_for(300ms);  // so that the others are asleep
  if (name == "fail") {
    const int status = std::stoi(action.at(2));
    process.error(complaint(name, self.rank), status);
    if (action.size() > 3) ::raise(std::stoi(action.at(3)));
    return status;
  }
  if (name == "kill") ::raise(std::stoi(action.at(2)));
  if (name == "exit") ::_exit(std::stoi(action.at(2)));
  if (name == "crash") assertion_failed("1 > 2", "file.cpp", 7, "the last words");
  return 0;
}

int run_rank(const Arguments& arguments) {
  launch::RankProcess process(variable);
  if (arguments.at(1) != "-") process.log_to(arguments.at(1));
  const int status = act({arguments.begin() + 2, arguments.end()}, process.environment().value_or(launch::RankEnvironment{}), process);
  process.goodbye(status);
  return status;
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments(values + 1, values + count);
  try {
    if (arguments.at(0) == "rank") return run_rank(arguments);
    Arguments command{std::filesystem::read_symlink("/proc/self/exe").string(), "rank"};
    command.insert(command.end(), arguments.begin() + 2, arguments.end());
    const std::string& logs = arguments.at(2);
    return launch::launch({.num_ranks = std::stoll(arguments.at(1)),
                           .command = command,
                           .log_directory = logs == "-" ? std::nullopt : std::optional<std::filesystem::path>(logs)});
  } catch (const UserError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
