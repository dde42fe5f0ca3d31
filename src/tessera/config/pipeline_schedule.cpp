#include "tessera/config/pipeline_schedule.h"

#include "tessera/config/reader.h"

namespace tessera::config {

const std::vector<std::pair<std::string_view, PipelineSchedule>>& pipeline_schedule_names() {
  using S = PipelineSchedule;
  // The first name of each is the one that is shown.
  static const std::vector<std::pair<std::string_view, S>> names = {{"1f1b", S::OneFOneB},
                                                                    {"gpipe", S::GPipe},
                                                                    {"interleaved_1f1b", S::Interleaved1F1B},
                                                                    {"interleaved1f1b", S::Interleaved1F1B},
                                                                    {"dfs", S::Interleaved1F1B},
                                                                    {"looped_bfs", S::LoopedBFS},
                                                                    {"loopedbfs", S::LoopedBFS},
                                                                    {"zbv_zero_bubble", S::ZBVZeroBubble},
                                                                    {"zbvzerobubble", S::ZBVZeroBubble},
                                                                    {"v_schedule", S::ZBVZeroBubble},
                                                                    {"interleaved_zero_bubble", S::InterleavedZeroBubble},
                                                                    {"interleavedzerobubble", S::InterleavedZeroBubble},
                                                                    {"zero_bubble", S::InterleavedZeroBubble},
                                                                    {"dualpipev", S::DualPipeV}};
  return names;
}

std::optional<PipelineSchedule> pipeline_schedule(std::string_view name) {
  const std::string wanted = normalized_choice(name);
  for (const auto& [known, schedule] : pipeline_schedule_names())
    if (known == wanted) return schedule;
  return std::nullopt;
}

std::string_view to_string(PipelineSchedule schedule) {
  for (const auto& [name, value] : pipeline_schedule_names())
    if (value == schedule) return name;
  return "";
}

}  // namespace tessera::config
