#pragma once

#include "tessera/model/parameter_table.h"
#include "tessera/parallel/pipeline/stage_plan.h"

namespace tessera::pipeline {

/// What a rank has of a table: the parameters of its stages, under the same names and numbers.
///
/// A tied embedding whose two uses are on different ranks is on both; at the head's it belongs to the last unit. Its rows are shared out between the
/// two (or, where tensor parallelism leaves it whole, between all that hold them): model::ReplicatedRows.
model::ParameterTable stage_table(const model::ParameterTable& whole, const StagePlan& stages, int rank);

/// The ranks that hold a tied embedding, the one that looks it up first; empty where it is on one rank, or not tied.
std::vector<int> tied_ranks(const model::ParameterTable& whole, const StagePlan& stages);

}  // namespace tessera::pipeline
