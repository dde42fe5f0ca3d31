#include "tessera/parallel/pipeline/placement.h"

#include <algorithm>

namespace tessera::pipeline {

std::vector<int> StagePlacement::stages_of(int rank) const {
  std::vector<int> stages;
  for (int stage = 0; stage < num_stages(); ++stage)
    if (rank_of[static_cast<std::size_t>(stage)] == rank) stages.push_back(stage);
  return stages;
}

StagePlacement loop_placement(int num_ranks, int stages_per_rank) {
  StagePlacement placement{.rank_of = {}, .num_ranks = num_ranks};
  for (int stage = 0; stage < num_ranks * stages_per_rank; ++stage) placement.rank_of.push_back(stage % num_ranks);
  return placement;
}

StagePlacement v_placement(int num_ranks) {
  StagePlacement placement{.rank_of = {}, .num_ranks = num_ranks};
  for (int stage = 0; stage < 2 * num_ranks; ++stage) placement.rank_of.push_back(std::min(stage, 2 * num_ranks - 1 - stage));
  return placement;
}

StagePlacement placement_of(const Schedule& schedule) {
  StagePlacement placement{.rank_of = {}, .num_ranks = static_cast<int>(schedule.size())};
  for (int rank = 0; rank < placement.num_ranks; ++rank) {
    for (const Action& action : schedule[static_cast<std::size_t>(rank)]) {
      const auto stage = static_cast<std::size_t>(action.stage);
      if (stage >= placement.rank_of.size()) placement.rank_of.resize(stage + 1, -1);
      if (placement.rank_of[stage] < 0) placement.rank_of[stage] = rank;
    }
  }
  return placement;
}

}  // namespace tessera::pipeline
