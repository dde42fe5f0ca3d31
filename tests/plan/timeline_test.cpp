#include "tessera/plan/timeline.h"

#include <gmock/gmock.h>

#include "tessera/core/json.h"
#include "tessera/parallel/pipeline/csv.h"
#include "tessera/parallel/pipeline/lowering.h"

namespace tessera::plan {
namespace {

using testing::HasSubstr;
using testing::Not;

Simulation simulated(const char* csv, const pipeline::StagePlacement& placement) {
  return simulate(pipeline::lower(pipeline::parse_csv(csv, "test"), placement), placement);
}

/// Nine milliseconds.
Simulation two_ranks() { return simulated("0F0,0F1,0B0,0B1\n1F0,1I0,1W0,1F1,1B1", pipeline::loop_placement(2, 1)); }

TEST(Timeline, ThreeColumnsPerMillisecond) {
  EXPECT_EQ(draw_text(two_ranks(), 27, false), "rank  0 F0 F1 ...B0    ......B1    \nrank  1 ...F0 I0 W0 F1 B1    ......\n");
}

TEST(Timeline, EqualPassesAreEquallyWide) {
  EXPECT_EQ(draw_text(two_ranks(), 35, false), draw_text(two_ranks(), 27, false));
  EXPECT_EQ(draw_text(two_ranks(), 6, false).find('\n'), std::string("rank  0 ").size() + 6);  // too few for a column per pass
}

TEST(Timeline, LabelsShrinkToTheKind) {
  EXPECT_EQ(draw_text(two_ranks(), 9, false), "rank  0 FF.B ..B \nrank  1 .FIWFB ..\n");
  EXPECT_EQ(draw_text(simulated("0F0,1F0,1B0,0B0", {.rank_of = {0, 0}, .num_ranks = 1}), 24, false), "rank  0 0F0 1F0 1B0     0B0     \n");
}

TEST(Timeline, ColoursOnlyWhereAskedFor) {
  EXPECT_THAT(draw_text(two_ranks(), 27, true), HasSubstr("\x1b[30;44mF0 \x1b[0m"));
  EXPECT_THAT(draw_text(two_ranks(), 27, false), Not(HasSubstr("\x1b")));
}

TEST(Timeline, SvgHasABoxPerPass) {
  const std::string svg = draw_svg(two_ranks());
  EXPECT_THAT(svg, testing::AllOf(testing::StartsWith("<svg "), testing::EndsWith("</svg>\n"), HasSubstr("<title>1I0: 2 to 3 ms</title>")));
  std::size_t boxes = 0;
  for (std::size_t at = svg.find("<rect"); at != std::string::npos; at = svg.find("<rect", at + 1)) ++boxes;
  EXPECT_EQ(boxes, 9U);
}

TEST(Timeline, TraceHasMicroseconds) {
  const Json events = parse_json(trace(two_ranks()), "trace");
  ASSERT_EQ(events.size(), 2U + 9U);
  const auto input_gradient = std::ranges::find_if(events, [](const Json& event) { return event["name"] == "1I0"; });
  ASSERT_NE(input_gradient, events.end());
  EXPECT_EQ(*input_gradient, Json::parse(R"({"name": "1I0", "cat": "input gradient", "ph": "X", "pid": 1, "tid": 0, "ts": 2000.0, "dur": 1000.0,
                                             "args": {"stage": 1, "microbatch": 0}})"));
}

TEST(Timeline, NothingTakesTime) {
  const pipeline::StagePlacement placement = pipeline::loop_placement(1, 1);
  const Simulation simulation = simulate(pipeline::parse_csv("0F0,0B0", "test"), placement, {0, 0, 0, 0});
  EXPECT_EQ(draw_text(simulation, 3, false), "rank  0 \n");
  EXPECT_THAT(draw_svg(simulation), Not(HasSubstr("nan")));
  EXPECT_EQ(simulation.bubble_share(), 0);
}

}  // namespace
}  // namespace tessera::plan
