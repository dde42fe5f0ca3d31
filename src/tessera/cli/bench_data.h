#pragma once

#include <vector>

#include "tessera/cli/cli.h"

namespace tessera::cli {

/// Adds `tokenizer` and `loader` to the `bench` command.
std::vector<Command> add_bench_data(CLI::App& bench);

}  // namespace tessera::cli
