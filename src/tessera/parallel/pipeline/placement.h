#pragma once

#include <vector>

#include "tessera/parallel/pipeline/action.h"

namespace tessera::pipeline {

/// Which rank holds each stage. A rank's stages are in ascending order its chunks 0, 1, …
struct StagePlacement {
  std::vector<int> rank_of;  ///< by stage
  int num_ranks = 0;

  int num_stages() const { return static_cast<int>(rank_of.size()); }
  /// Ascending.
  std::vector<int> stages_of(int rank) const;

  bool operator==(const StagePlacement&) const = default;
};

/// Stage s on rank s mod num_ranks.
StagePlacement loop_placement(int num_ranks, int stages_per_rank);
/// Two stages on each rank, down and up again: rank r holds stages r and 2 · num_ranks − 1 − r, so the last rank hands over to itself and the loss is
/// on rank 0.
StagePlacement v_placement(int num_ranks);
/// The placement that a schedule's computing actions imply: every stage is where it first occurs. Stages that occur nowhere are on no rank (−1).
StagePlacement placement_of(const Schedule& schedule);

}  // namespace tessera::pipeline
