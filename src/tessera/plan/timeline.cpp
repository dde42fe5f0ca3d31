#include "tessera/plan/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/core/json.h"

namespace tessera::plan {
namespace {

using pipeline::Action;
using pipeline::ActionKind;

/// How a kind of pass looks: terminal background, SVG fill.
struct Look {
  int background;
  const char* fill;
  const char* name;
};
Look look_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return {44, "#7aa6da", "forward"};
    case ActionKind::InputGradient:
      return {42, "#8cc084", "input gradient"};
    case ActionKind::WeightGradient:
      return {45, "#c79bd2", "weight gradient"};
    default:
      return {43, "#e8b35f", "backward"};
  }
}

/// Whether any rank has more than one stage, so that labels need the stage's number.
bool has_several_stages(const Simulation& simulation) {
  return std::ranges::any_of(simulation.ranks, [](const RankTimeline& rank) {
    return std::ranges::any_of(rank.spans, [&](const Span& span) { return span.action.stage != rank.spans.front().action.stage; });
  });
}

/// What a pass is called where a column is so long; the same for all passes, so that they are told apart by eye.
enum class Label { Kind, KindAndMicrobatch, Whole };

std::string label_of(const Action& action, Label label) {
  const std::string kind(to_string(action.kind));
  if (label == Label::Kind) return kind;
  return label == Label::Whole ? to_string(action) : kind + std::to_string(action.microbatch);
}

double shortest_pass(const Simulation& simulation) {
  double shortest = simulation.step_time;
  for (const RankTimeline& rank : simulation.ranks)
    for (const Span& span : rank.spans)
      if (span.end > span.begin) shortest = std::min(shortest, span.end - span.begin);
  return shortest;
}

/// A whole number of columns for the shortest pass, as many as fit, so that equal passes look equal.
double column_time(const Simulation& simulation, int columns) {
  const double shortest = shortest_pass(simulation);
  const double columns_of_shortest = std::floor(columns * shortest / simulation.step_time);
  return columns_of_shortest >= 1 ? shortest / columns_of_shortest : simulation.step_time / columns;
}

/// Whether every pass has room for its label and `gap` blanks.
bool fits(const Simulation& simulation, double column, Label label, int gap) {
  return std::ranges::all_of(simulation.ranks, [&](const RankTimeline& rank) {
    return std::ranges::all_of(rank.spans, [&](const Span& span) {
      return static_cast<double>(label_of(span.action, label).size()) + gap <= (span.end - span.begin) / column + 1e-9;
    });
  });
}

/// Whole labels begin with a digit and need a gap before the next.
Label widest_label(const Simulation& simulation, double column) {
  if (has_several_stages(simulation) && fits(simulation, column, Label::Whole, 1)) return Label::Whole;
  return fits(simulation, column, Label::KindAndMicrobatch, 0) ? Label::KindAndMicrobatch : Label::Kind;
}

std::string draw_rank(const RankTimeline& rank, double column, int columns, Label label, bool colours) {
  const auto middle = [&](int index) { return (index + 0.5) * column; };
  std::string line;
  std::size_t next = 0;
  for (int begin = 0; begin < columns;) {
    while (next < rank.spans.size() && rank.spans[next].end <= middle(begin)) ++next;
    if (next == rank.spans.size() || rank.spans[next].begin > middle(begin)) {
      line += '.';
      ++begin;
      continue;
    }
    const Span& span = rank.spans[next];
    int end = begin + 1;
    while (end < columns && middle(end) < span.end) ++end;
    const std::string cell = fmt::format("{:<{}}", label_of(span.action, label).substr(0, static_cast<std::size_t>(end - begin)), end - begin);
    line += colours ? fmt::format("\x1b[30;{}m{}\x1b[0m", look_of(span.action.kind).background, cell) : cell;
    begin = end;
  }
  return line;
}

/// Ticks of the axis: a round number of milliseconds apart, at most ten.
double tick_distance(double length) {
  double distance = 1e-3;
  for (int i = 0; length / distance > 10; ++i) distance *= std::array{2.0, 2.5, 2.0}[static_cast<std::size_t>(i % 3)];
  return distance;
}

}  // namespace

std::string draw_text(const Simulation& simulation, int columns, bool colours) {
  const double column = simulation.step_time > 0 ? column_time(simulation, columns) : 1.0;
  const int used = static_cast<int>(std::ceil(simulation.step_time / column - 1e-9));
  const Label label = widest_label(simulation, column);
  std::string text;
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank)
    text += fmt::format("rank {:>2} {}\n", rank, draw_rank(simulation.ranks[rank], column, used, label, colours));
  return text;
}

std::string draw_svg(const Simulation& simulation) {
  constexpr double left = 70, row = 28, box = 24;
  const double width = std::clamp(30.0 * static_cast<double>(simulation.ranks.front().spans.size()), 600.0, 12000.0);
  const double scale = simulation.step_time > 0 ? width / simulation.step_time : 0, bottom = row * static_cast<double>(simulation.ranks.size());
  std::string svg =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n",
                  left + width + 20, bottom + 30);
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    const double top = row * static_cast<double>(rank);
    svg += fmt::format("<text x=\"4\" y=\"{:.1f}\">rank {}</text>\n", top + 16, rank);
    for (const Span& span : simulation.ranks[rank].spans) {
      const double x = left + span.begin * scale, length = (span.end - span.begin) * scale;
      const std::string label = to_string(span.action);
      svg += fmt::format(
          "<g><title>{}: {:g} to {:g} ms</title><rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" stroke=\"white\"/>", label,
          span.begin, span.end, x, top, length, box, look_of(span.action.kind).fill);
      if (length >= 7.0 * static_cast<double>(label.size()))
        svg += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", x + length / 2, top + 16, label);
      svg += "</g>\n";
    }
  }
  const double distance = tick_distance(simulation.step_time);
  for (int tick = 0; tick * distance <= simulation.step_time * (1 + 1e-9); ++tick)
    svg += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:g} ms</text>\n", left + tick * distance * scale, bottom + 16,
                       tick * distance);
  return svg + "</svg>\n";
}

std::string trace(const Simulation& simulation) {
  std::string lines;
  const auto add = [&](const OrderedJson& event) { lines += (lines.empty() ? "" : ",\n") + event.dump(); };
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    add({{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"tid", 0}, {"args", {{"name", fmt::format("rank {}", rank)}}}});
    for (const Span& span : simulation.ranks[rank].spans)
      add({{"name", to_string(span.action)},
           {"cat", look_of(span.action.kind).name},
           {"ph", "X"},
           {"pid", rank},
           {"tid", 0},
           {"ts", span.begin * 1000},
           {"dur", (span.end - span.begin) * 1000},
           {"args", {{"stage", span.action.stage}, {"microbatch", span.action.microbatch}}}});
  }
  return "[\n" + lines + "\n]\n";
}

}  // namespace tessera::plan
