#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/launch/rank_process.h"

namespace tessera::cli {

/// --nproc-per-node and --log-dir of a command that can run as several ranks: put it into the command's Command, and `run` is called in every rank.
struct RankArguments {
  std::int64_t num_processes = 0;                          ///< 0: not given
  std::filesystem::path log_directory;                     ///< empty: none
  std::function<void(std::int64_t num_ranks)> before_run;  ///< refuses impossible arguments once, before ranks are started; may be absent
};
std::shared_ptr<RankArguments> add_rank_arguments(CLI::App& parser);

/// Runs `body` as the rank that this process is, or starts the ranks that --nproc-per-node asks for, which then come here, and returns their status.
/// `arguments`: the program's, without its name.
int run_ranks(const RankArguments& ranks, const std::vector<std::string>& arguments, launch::RankProcess& process, const std::function<int()>& body);

/// `arguments` without --nproc-per-node and its value: what each rank is started with.
std::vector<std::string> arguments_of_ranks(const std::vector<std::string>& arguments);

/// Ranks of the run that this process belongs to; 1 when it was started alone.
std::int64_t world_size();

}  // namespace tessera::cli
