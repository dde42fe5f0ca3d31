#include "tessera/parallel/pipeline/action.h"

#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/parallel/pipeline/csv.h"

namespace tessera::pipeline {
namespace {

using enum ActionKind;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Action, TextIsStageKindMicrobatch) {
  EXPECT_EQ(to_string(Action{2, Forward, 0}), "2F0");
  EXPECT_EQ(to_string(Action{13, ReceiveGradient, 41}), "13RECV_B41");
  EXPECT_EQ(to_string(Action{0, ReduceGradient}), "0REDUCE_GRAD");
}

TEST(Action, EveryKindReadsBack) {
  for (int kind = 0; kind <= static_cast<int>(ReduceGradient); ++kind) {
    Action action{3, static_cast<ActionKind>(kind), 12};
    if (action.kind >= Gather) action.microbatch = -1;
    EXPECT_EQ(parse_action(to_string(action)), action) << to_string(action);
  }
}

TEST(Action, OtherTextIsNone) {
  for (const char* text : {"", "2", "F0", "2F", "2X0", "2f0", "2F0 ", "-1F0", "2F-1", "0UNSHARD1", "99999999999F0", "1F2F3"})
    EXPECT_EQ(parse_action(text), std::nullopt) << text;
}

TEST(Csv, ReadsWhatItWrites) {
  const Schedule schedule{{{0, Forward, 0}, {0, SendActivation, 0}, {0, Gather}}, {{1, Forward, 0}, {1, InputGradient, 0}, {1, WeightGradient, 0}}};
  EXPECT_EQ(to_csv(schedule), "0F0,0SEND_F0,0UNSHARD\n1F0,1I0,1W0\n");
  EXPECT_EQ(parse_csv(to_csv(schedule), "s.csv"), schedule);
}

TEST(Csv, IdleCellsMeanNothing) {
  EXPECT_EQ(parse_csv("0F0,, 0B0 ,\r\n,1F0,1B0\n\n", "s.csv"), (Schedule{{{0, Forward, 0}, {0, Backward, 0}}, {{1, Forward, 0}, {1, Backward, 0}}}));
}

TEST(Csv, OverlappedPairsAreTwoActions) {
  EXPECT_EQ(parse_csv("0F0,(0F1;1B0)OVERLAP_F_B", "s.csv"), (Schedule{{{0, Forward, 0}, {0, Forward, 1}, {1, Backward, 0}}}));
}

TEST(Csv, MistakesHaveTheirLine) {
  const std::string error = test::error_of([] { parse_csv("0F0,0B0\n1F0,1Q0\n(0F1;3B0)OTHER,\"2F0\"", "s.csv"); });
  EXPECT_THAT(error, testing::AllOf(HasSubstr("s.csv:2: \"1Q0\" is not an action"), HasSubstr("s.csv:3: \"(0F1;3B0)OTHER\""), HasSubstr("s.csv:3")));
}

TEST(Csv, NumbersThatCannotBeAllThereAreRefused) {
  EXPECT_THAT(test::error_of([] { parse_csv("0F0,0B0\n2000000000F0,1B0", "s.csv"); }), HasSubstr("s.csv:2: 2000000000F0 among 4 actions"));
}

}  // namespace
}  // namespace tessera::pipeline
