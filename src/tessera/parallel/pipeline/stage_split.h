#pragma once

#include <limits>
#include <string>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/model/parameter_table.h"

/// Which layers a stage holds. Units are those of the parameter table: the embedding, each block, the final norm with the head.
namespace tessera::pipeline {

using model::UnitRange;

/// What each unit costs one token: the elements of every matrix that it is multiplied by, and a row of every table that it is looked up in. So a head
/// with a large vocabulary weighs as much as several blocks (tied or not), an embedding next to nothing, and a block of experts as those of one
/// token.
std::vector<double> unit_costs(const model::ParameterTable& table);

struct BlockLimits {
  int fewest = 1;  ///< blocks of a stage
  int most = std::numeric_limits<int>::max();
  bool head_alone = true;  ///< the last stage may hold the head and no block
};

/// The split whose most expensive stage costs least; among several the one whose stages are most alike (least squares). The embedding is with the
/// first block. Empty when no split keeps the limits.
std::vector<UnitRange> split_units(const std::vector<double>& costs, int num_stages, const BlockLimits& limits = {});

/// The split that lists of module names say, one list for each stage: "model.embed_tokens", "model.layers.3", "model.norm", "lm_head", with the
/// model's prefix or without; modules without parameters of their own ("model.rotary_emb") are wherever they are needed. Adds a problem for names
/// that nothing answers to, and for units that are missing, twice, out of order or not all on one stage; the result is then meaningless.
std::vector<UnitRange> split_by_modules(const std::vector<std::vector<std::string>>& modules, const model::ParameterTable& table,
                                        const std::string& where, ProblemList& problems);

/// "embedding, layers 0-3", "layer 7, head": for people.
std::string describe(const UnitRange& range, int num_units);

}  // namespace tessera::pipeline
