#pragma once

#include "tessera/cli/cli.h"

namespace tessera::cli {

/// Adds `comm` to the `bench` command.
Command add_bench_comm(CLI::App& bench);

}  // namespace tessera::cli
