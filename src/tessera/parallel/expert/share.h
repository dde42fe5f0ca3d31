#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/mesh/mesh_context.h"
#include "tessera/model/parameter_table.h"

/// Which experts a rank of expert parallelism holds: arithmetic, without tensors.
namespace tessera::parallel {

struct ExpertShare {
  std::int64_t size = 1;  ///< of the group; divides the number of experts
  std::int64_t rank = 0;
};

/// Experts [first, first + count) of every layer that has experts.
struct ExpertRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
ExpertRange expert_range(std::int64_t num_experts, const ExpertShare& share);

/// The parameters of this rank: those of `table`, with the rows of its own experts where experts are stacked. The same names; fewer pieces.
model::ParameterTable expert_parallel_table(model::ParameterTable table, const ExpertShare& share);

/// The plan as text: a line for each rank of ep, "rank 1: experts 4 to 7 of 8", and one that says over which ranks each expert's state lies.
std::vector<std::string> describe_experts(std::int64_t num_experts, const mesh::MeshSizes& mesh);

}  // namespace tessera::parallel
