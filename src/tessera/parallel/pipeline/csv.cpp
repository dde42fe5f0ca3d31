#include "tessera/parallel/pipeline/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/text.h"

namespace tessera::pipeline {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

/// The parts of "(0F1;3B0)OVERLAP_F_B", or the cell itself.
std::vector<std::string> parts_of(std::string_view cell) {
  constexpr std::string_view overlap = ")OVERLAP_F_B";
  if (!cell.starts_with('(') || !cell.ends_with(overlap)) return {std::string(cell)};
  return split(cell.substr(1, cell.size() - 1 - overlap.size()), ';');
}

ActionList parse_line(std::string_view line, const std::string& where, ProblemList& problems) {
  ActionList actions;
  for (const std::string& cell : split(line, ',')) {
    const std::string_view text = trimmed(cell);
    if (text.empty()) continue;
    for (const std::string& part : parts_of(text)) {
      if (const auto action = parse_action(trimmed(part))) {
        actions.push_back(*action);
      } else {
        problems.add({where, fmt::format("\"{}\" is not an action", part), "an action is stage, kind and microbatch: 2F0, 2I0, 2W0 or 2B0",
                      "correct or remove it"});
      }
    }
  }
  return actions;
}

/// Numbers start at 0 without a gap, so none can be as large as the number of actions; what is made from a schedule may be as long as its numbers.
void refuse_far_numbers(const Schedule& schedule, const std::string& where, ProblemList& problems) {
  std::size_t num_actions = 0;
  for (const ActionList& actions : schedule) num_actions += actions.size();
  for (std::size_t rank = 0; rank < schedule.size(); ++rank)
    for (const Action& action : schedule[rank])
      if (std::max(action.stage, action.microbatch) >= static_cast<int>(num_actions))
        problems.add({fmt::format("{}:{}", where, rank + 1), fmt::format("{} among {} actions", to_string(action), num_actions),
                      "stages and microbatches are numbered from 0 without a gap", "number them anew"});
}

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (const ActionList& actions : schedule) {
    for (std::size_t i = 0; i < actions.size(); ++i) text += (i == 0 ? "" : ",") + to_string(actions[i]);
    text += '\n';
  }
  return text;
}

Schedule parse_csv(std::string_view text, const std::string& where) {
  Schedule schedule;
  ProblemList problems;
  std::size_t num_ranks = 0;  // up to the last line that says something
  for (const std::string& line : split(text, '\n')) {
    schedule.push_back(parse_line(line, fmt::format("{}:{}", where, schedule.size() + 1), problems));
    if (!schedule.back().empty()) num_ranks = schedule.size();
  }
  refuse_far_numbers(schedule, where, problems);
  problems.throw_if_any();
  schedule.resize(num_ranks);
  return schedule;
}

Schedule read_schedule_csv(const std::filesystem::path& path) { return parse_csv(read_text_file(path), path.string()); }

}  // namespace tessera::pipeline
