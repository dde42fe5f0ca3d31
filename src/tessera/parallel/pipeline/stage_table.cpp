#include "tessera/parallel/pipeline/stage_table.h"

#include <algorithm>

namespace tessera::pipeline {
namespace {

using model::ParameterSpec;

/// Which rank runs each unit.
std::vector<int> ranks_of_units(const StagePlan& stages, std::int64_t num_units) {
  std::vector<int> ranks(static_cast<std::size_t>(num_units), -1);
  for (std::size_t stage = 0; stage < stages.units.size(); ++stage)
    for (int unit = stages.units[stage].first; unit < stages.units[stage].end; ++unit)
      ranks[static_cast<std::size_t>(unit)] = stages.placement.rank_of[stage];
  return ranks;
}

/// `place`: 0 at the rank that looks tokens up, 1 at the head's.
ParameterSpec on_two_stages(ParameterSpec parameter, int place) {
  const bool whole = parameter.replicated.empty();  // of each rank of tensor parallelism
  const std::int64_t num_holders = whole ? 1 : parameter.replicated.front().num_holders;
  const std::int64_t holder = whole ? 0 : parameter.replicated.front().holder;
  parameter.replicated = {
      {.row = 0, .num_rows = parameter.shape[0], .num_holders = 2 * num_holders, .holder = place * num_holders + holder, .partial = false}};
  parameter.on_two_stages = true;
  return parameter;
}

}  // namespace

std::vector<int> tied_ranks(const model::ParameterTable& whole, const StagePlan& stages) {
  const std::vector<int> ranks = ranks_of_units(stages, whole.num_units);
  if (!whole.tied_head || ranks.front() == ranks.back()) return {};
  return {ranks.front(), ranks.back()};
}

model::ParameterTable stage_table(const model::ParameterTable& whole, const StagePlan& stages, int rank) {
  const std::vector<int> ranks = ranks_of_units(stages, whole.num_units);
  const std::vector<int> tied = tied_ranks(whole, stages);
  model::ParameterTable own = whole;
  own.parameters.clear();
  std::vector<ParameterSpec> last;
  for (const ParameterSpec& parameter : whole.parameters) {
    const bool shared = !tied.empty() && parameter.role == model::Role::Embedding;
    const bool here = ranks[static_cast<std::size_t>(parameter.unit)] == rank;
    if (here) {
      own.parameters.push_back(shared ? on_two_stages(parameter, 0) : parameter);
    } else if (shared && tied.back() == rank) {
      last.push_back(on_two_stages(parameter, 1));
      last.back().unit = whole.num_units - 1;
    } else {
      for (const model::Piece& piece : parameter.pieces) own.elsewhere.insert(piece.tensor);
    }
  }
  own.parameters.insert(own.parameters.end(), last.begin(), last.end());
  own.tied_head = whole.tied_head && ranks.back() == rank;
  if (whole.tied_head && !own.tied_head) own.elsewhere.insert(whole.tied_head_tensor);
  return own;
}

}  // namespace tessera::pipeline
