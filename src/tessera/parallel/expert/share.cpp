#include "tessera/parallel/expert/share.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/model/placement.h"

namespace tessera::parallel {
namespace {

using model::Extent;
using model::ParameterSpec;

ParameterSpec own_experts(ParameterSpec parameter, const ExpertShare& share) {
  const std::int64_t num_experts = parameter.shape[0], rows_per_expert = parameter.num_rows() / num_experts;
  const ExpertRange own = expert_range(num_experts, share);
  const Extent range{own.first * rows_per_expert, (own.first + own.count) * rows_per_expert};
  parameter.pieces = model::pieces_of_rows(parameter, range);
  for (model::Piece& piece : parameter.pieces) piece.row -= range.begin;
  parameter.shape[0] = own.count;
  for (model::ReplicatedRows& rows : parameter.replicated) {
    TESSERA_ASSERT(rows.row == 0 && rows.num_rows >= range.size(), "ranks that hold the same experts hold all of their rows");
    rows.num_rows = range.size();
  }
  return parameter;
}

}  // namespace

ExpertRange expert_range(std::int64_t num_experts, const ExpertShare& share) {
  TESSERA_ASSERT(num_experts % share.size == 0, "every rank holds equally many experts");
  const std::int64_t count = num_experts / share.size;
  return {share.rank * count, count};
}

model::ParameterTable expert_parallel_table(model::ParameterTable table, const ExpertShare& share) {
  if (share.size == 1) return table;
  for (ParameterSpec& parameter : table.parameters) {
    if (parameter.role != model::Role::Experts) continue;
    for (const model::Piece& piece : parameter.pieces) table.elsewhere.insert(piece.tensor);
    parameter = own_experts(std::move(parameter), share);
    for (const model::Piece& piece : parameter.pieces) table.elsewhere.erase(piece.tensor);
  }
  return table;
}

std::vector<std::string> describe_experts(std::int64_t num_experts, const mesh::MeshSizes& mesh) {
  std::vector<std::string> lines;
  for (std::int64_t rank = 0; rank < mesh.ep; ++rank) {
    const ExpertRange own = expert_range(num_experts, {.size = mesh.ep, .rank = rank});
    lines.push_back(fmt::format("ep rank {:<4} experts {} to {} of {}", rank, own.first, own.first + own.count - 1, num_experts));
  }
  lines.push_back(fmt::format("each lies over ep_shard ({}), dp_replicate ({}) and, with its tokens split, tp ({})", mesh.ep_shard(),
                              mesh.dp_replicate, mesh.tp));
  return lines;
}

}  // namespace tessera::parallel
