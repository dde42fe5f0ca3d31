#include "tessera/comm/launch/rank_environment.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::launch {
namespace {

/// How one launcher names what its processes are.
struct Names {
  std::string_view rank;
  std::string_view world_size;
  std::string_view local_rank;
  std::string_view local_size;
};

// Open MPI's manual, "environment variables set by mpirun"; MPICH's Hydra; srun(1), "output environment variables"; torchrun's documentation.
constexpr Names kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kHydra{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kSlurm{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""};
constexpr Names kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

std::int64_t to_number(std::string_view name, const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 0) return number;
  throw UserError({"", fmt::format("{}={} is not a whole number from 0", name, text), "the launcher sets it for every rank",
                   "start the ranks with mpirun or srun, and set none of their variables by hand"});
}

std::int64_t number_or(const Environment& environment, std::string_view name, std::int64_t otherwise) {
  const auto text = name.empty() ? std::nullopt : environment(name);
  return text ? to_number(name, *text) : otherwise;
}

/// Slurm's "2(x3),1" is 2, 2, 2, 1 tasks on the nodes of a step; this is the number on node `node`, or 1.
std::int64_t tasks_on_node(const std::string& tasks_per_node, std::int64_t node) {
  for (const std::string& part : split(tasks_per_node, ',')) {
    const std::size_t times = part.find("(x");
    const std::int64_t tasks = to_number("SLURM_STEP_TASKS_PER_NODE", part.substr(0, times));
    const std::int64_t count =
        times == std::string::npos ? 1 : to_number("SLURM_STEP_TASKS_PER_NODE", part.substr(times + 2, part.size() - times - 3));
    if (node < count) return tasks;
    node -= count;
  }
  return 1;
}

std::optional<RankEnvironment> read(const Environment& environment, const Names& names) {
  if (!environment(names.rank) || !environment(names.world_size)) return std::nullopt;
  RankEnvironment found{.rank = number_or(environment, names.rank, 0),
                        .world_size = number_or(environment, names.world_size, 1),
                        .local_rank = number_or(environment, names.local_rank, 0),
                        .local_size = 1};
  found.local_size = number_or(environment, names.local_size, found.local_rank + 1);  // when it is not set: as few as there can be
  if (const auto tasks = environment("SLURM_STEP_TASKS_PER_NODE"); names.local_size.empty() && tasks)
    found.local_size = tasks_on_node(*tasks, number_or(environment, "SLURM_NODEID", 0));
  if (found.rank < found.world_size && found.local_rank < found.local_size) return found;
  throw UserError({"",
                   fmt::format("{}={} of {}={}, {} of {} on this host: no such rank", names.rank, found.rank, names.world_size, found.world_size,
                               found.local_rank, found.local_size),
                   "ranks are numbered from 0", "start the ranks with mpirun or srun, and set none of their variables by hand"});
}

/// Each task would otherwise train alone, and all write to the same place.
void refuse_srun_without_pmi(const Environment& environment) {
  const auto step = read(environment, kSlurm);
  if (!step || step->world_size == 1) return;
  for (const std::string_view name : {kOpenMpi.world_size, kHydra.world_size, std::string_view("PMIX_RANK")})
    if (environment(name)) return;
  throw UserError({"", fmt::format("srun started {} tasks without PMI, which MPI needs to start", step->world_size), "ranks on CPUs talk MPI",
                   "use srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH), or mpirun; `srun --mpi=list` shows what there is"});
}

/// What to type instead, for a fix.
std::string mpirun_line(std::int64_t world_size, const std::string& command_line) {
  return fmt::format("start them with  mpirun -n {} {}\n        or on one host with  {} --nproc-per-node {}", world_size, command_line, command_line,
                     world_size);
}

/// torchrun's variables without the place where its ranks meet: each would train alone, and all write to the same place.
void refuse_ranks_without_rendezvous(const Environment& environment, const std::string& command_line) {
  if (environment("MASTER_ADDR") || rank_environment(environment)) return;
  const auto found = read(environment, kTorchrun);
  if (!found || found->world_size == 1) return;
  throw UserError({"", fmt::format("RANK={} and WORLD_SIZE={} are set, MASTER_ADDR is not", found->rank, found->world_size),
                   "torchrun sets all of them, for ranks on GPUs; on CPUs ranks talk MPI, which only its own launcher can start",
                   mpirun_line(found->world_size, command_line) + "\n        or to train alone, unset RANK and WORLD_SIZE"});
}

}  // namespace

std::optional<RankEnvironment> rank_environment(const Environment& environment) {
  for (const Names& names : {kOpenMpi, kHydra}) {
    if (const auto found = read(environment, names)) return found;
  }
  const auto step = read(environment, kSlurm);
  return step && step->world_size > 1 ? step : std::nullopt;
}

std::optional<RankEnvironment> torchrun_environment(const Environment& environment) {
  if (!environment("MASTER_ADDR")) return std::nullopt;
  return read(environment, kTorchrun);
}

Rendezvous torchrun_rendezvous(const Environment& environment) {
  Rendezvous meeting;
  meeting.address = environment("MASTER_ADDR").value_or("");
  const std::optional<std::string> port = environment("MASTER_PORT");
  const std::int64_t number = port ? to_number("MASTER_PORT", *port) : 0;
  if (number < 1 || number > 65535) {
    throw UserError({"", port ? fmt::format("MASTER_PORT={} is not a TCP port", *port) : "MASTER_ADDR is set, MASTER_PORT is not",
                     "ranks on GPUs meet at MASTER_ADDR:MASTER_PORT", "set it to the same free port, 1 to 65535, for every rank"});
  }
  meeting.port = static_cast<std::uint16_t>(number);
  meeting.served = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  meeting.prefix = "tessera/" + environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
  return meeting;
}

bool started_by_torchrun(const Environment& environment) {
  return torchrun_environment(environment) && (environment("TORCHELASTIC_RUN_ID") || !rank_environment(environment));
}

void refuse_ranks_without_mpi(const Environment& environment, const std::string& command_line) {
  const auto found = torchrun_environment(environment);
  if (!started_by_torchrun(environment)) {
    refuse_ranks_without_rendezvous(environment, command_line);
    return refuse_srun_without_pmi(environment);
  }
  throw UserError({"", "RANK, WORLD_SIZE and MASTER_ADDR are set, as torchrun does", "on CPUs ranks talk MPI, which only its own launcher can start",
                   mpirun_line(found->world_size, command_line)});
}

}  // namespace tessera::launch
