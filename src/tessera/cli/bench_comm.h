#pragma once

#include <functional>
#include <utility>

#include "tessera/cli/cli.h"

namespace tessera::cli {

/// Adds `comm` to the `bench` command; returns its parser and what runs it.
std::pair<CLI::App*, std::function<int()>> add_bench_comm(CLI::App& bench);

}  // namespace tessera::cli
