#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "tessera/parallel/pipeline/action.h"

/// Schedules as text, `distributed.pipeline.pp_schedule_csv`: the form that torch.distributed.pipelining writes and reads.
namespace tessera::pipeline {

/// A line per rank, actions separated by commas: "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n".
std::string to_csv(const Schedule& schedule);

/// The reverse. Blanks around actions, empty cells (idle) and empty lines at the end mean nothing; "(0F1;3B0)OVERLAP_F_B" is its parts in turn, since
/// a rank computes one thing at a time. UserError with "where:line" for everything that is not an action, and for stages and microbatches whose
/// number is larger than the number of actions, which cannot be all there.
Schedule parse_csv(std::string_view text, const std::string& where);
/// Likewise of a file; UserError when it cannot be read.
Schedule read_schedule_csv(const std::filesystem::path& path);

}  // namespace tessera::pipeline
