#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/config/sections/distributed.h"

namespace tessera::config {

/// The names of pipeline schedules in recipes, several of some. Case and -/_ do not matter.
const std::vector<std::pair<std::string_view, PipelineSchedule>>& pipeline_schedule_names();
/// Nothing when there is no such schedule.
std::optional<PipelineSchedule> pipeline_schedule(std::string_view name);
/// The one name that documents and messages use.
std::string_view to_string(PipelineSchedule schedule);

}  // namespace tessera::config
