#include "tessera/cli/rank_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/cli/cli.h"
#include "tessera/comm/initialize.h"
#include "tessera/comm/launch/launcher.h"
#include "tessera/core/environment.h"
#include "tessera/core/error.h"

namespace tessera::cli {
namespace {

constexpr std::string_view kOption = "--nproc-per-node";

void refuse_ranks_in_ranks(const RankArguments& ranks, const launch::RankProcess& process) {
  if (!process.environment() || ranks.num_processes == 0) return;
  throw UserError({"",
                   fmt::format("--nproc-per-node {}: this process is rank {} of {} already", ranks.num_processes, process.environment()->rank,
                               process.environment()->world_size),
                   "ranks are started by one launcher", "leave --nproc-per-node out under mpirun and srun"});
}

}  // namespace

std::shared_ptr<RankArguments> add_rank_arguments(CLI::App& parser) {
  const auto ranks = std::make_shared<RankArguments>();
  parser.add_option(std::string(kOption), ranks->num_processes, "Start this many ranks on this host, through mpirun")->check(at_least(1));
  parser.add_option("--log-dir", ranks->log_directory, "Also write what each rank says to DIR/rank_N.log")->type_name("DIR");
  return ranks;
}

int run_ranks(const RankArguments& ranks, const std::vector<std::string>& arguments, launch::RankProcess& process, const std::function<int()>& body) {
  if (!comm::joins_on_gpus())
    launch::refuse_ranks_without_mpi(process_environment(), fmt::format("tessera {}", fmt::join(arguments_of_ranks(arguments), " ")));
  refuse_ranks_in_ranks(ranks, process);
  if (ranks.num_processes <= 1) {
    if (!ranks.log_directory.empty()) process.log_to(ranks.log_directory);
    return body();
  }
  if (ranks.before_run) ranks.before_run(ranks.num_processes);
  launch::LaunchRequest request{.num_ranks = ranks.num_processes, .command = arguments_of_ranks(arguments), .log_directory = std::nullopt};
  request.command.insert(request.command.begin(), std::filesystem::read_symlink("/proc/self/exe").string());
  if (!ranks.log_directory.empty()) request.log_directory = ranks.log_directory;
  return launch::launch(request);
}

std::vector<std::string> arguments_of_ranks(const std::vector<std::string>& arguments) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == kOption) {
      ++i;
    } else if (!arguments[i].starts_with(std::string(kOption) + "=")) {
      kept.push_back(arguments[i]);
    }
  }
  return kept;
}

std::int64_t world_size() {
  const Environment environment = process_environment();
  const auto self = comm::joins_on_gpus() ? launch::torchrun_environment(environment) : launch::rank_environment(environment);
  return self ? self->world_size : 1;
}

}  // namespace tessera::cli
