#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/config/node.h"
#include "tessera/core/error.h"

namespace tessera::config {

/// One command-line override: a dotted path and its value.
struct Override {
  std::string path;  ///< "optimizer.betas.0"
  Node value;        ///< its position is "command line"
};

/// Reads `--a.b VALUE`, `--a.b=VALUE` and bare `--flag` (true). The token after `--a.b` is its value unless it begins with "--".
/// Values are YAML: lists, maps and quoted strings as YAML writes them, anything else a plain scalar (number, true, none, text).
/// Adds a problem for every argument that is neither.
std::vector<Override> parse_overrides(std::span<const std::string> arguments, ProblemList& problems);

/// Sets each value in turn. Missing sections are made; a number is an index into a list (its length appends, and 0 makes a missing list).
/// Going through a scalar, or an index out of range, is a problem.
void apply_overrides(Node& root, std::span<const Override> overrides, ProblemList& problems);

}  // namespace tessera::config
