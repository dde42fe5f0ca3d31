#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <utility>
#include <vector>

namespace tessera::cli {

/// The subcommands of `bench` about data, each with what runs it: `tokenizer` and `loader`.
std::vector<std::pair<CLI::App*, std::function<int()>>> add_bench_data(CLI::App& bench);

}  // namespace tessera::cli
