#include "tessera/parallel/pipeline/schedule.h"

#include <gmock/gmock.h>

#include <regex>

#include "support/support.h"
#include "tessera/config/pipeline_schedule.h"
#include "tessera/parallel/pipeline/csv.h"

namespace tessera::pipeline {
namespace {

namespace fs = std::filesystem;
using enum ActionKind;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string problems_of(ScheduleName name, const ScheduleSize& size) {
  ProblemList problems;
  check_size(name, size, "", problems);
  return problems.empty() ? "" : UserError(problems.problems()).what();
}

// What torch.distributed.pipelining 2.13 computes (tests/data/pipeline/make_schedules.py).
TEST(Schedule, SmallCasesAreAsTorchHasThem) {
  const std::regex pattern("(.*)_p(\\d+)_v(\\d+)_m(\\d+)");
  int num_files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(test::test_data("pipeline"))) {
    if (entry.path().extension() != ".csv") continue;
    std::smatch match;
    const std::string stem = entry.path().stem();
    ASSERT_TRUE(std::regex_match(stem, match, pattern)) << stem;
    const ScheduleSize size{.num_ranks = std::stoi(match[2]), .num_microbatches = std::stoi(match[4]), .stages_per_rank = std::stoi(match[3])};
    const auto name = config::pipeline_schedule(match[1].str());
    ASSERT_TRUE(name.has_value()) << stem;
    EXPECT_EQ(to_csv(make_schedule(*name, size)), test::read_file(entry.path())) << stem;
    EXPECT_EQ(read_schedule_csv(entry.path()), make_schedule(*name, size)) << stem;
    EXPECT_EQ(placement_of(make_schedule(*name, size)), placement(*name, size)) << stem;
    ++num_files;
  }
  EXPECT_GE(num_files, 13);
}

TEST(Schedule, NamesOfRecipes) {
  using S = ScheduleName;
  EXPECT_EQ(config::pipeline_schedule("DFS"), S::Interleaved1F1B);
  EXPECT_EQ(config::pipeline_schedule("Interleaved1F1B"), S::Interleaved1F1B);
  EXPECT_EQ(config::pipeline_schedule("v-schedule"), S::ZBVZeroBubble);
  EXPECT_EQ(config::pipeline_schedule("zero_bubble"), S::InterleavedZeroBubble);
  EXPECT_EQ(config::pipeline_schedule("2f2b"), std::nullopt);
  EXPECT_EQ(config::to_string(S::Interleaved1F1B), "interleaved_1f1b");
}

TEST(Schedule, PlacementsAreALoopOrAV) {
  EXPECT_THAT(loop_placement(3, 2).rank_of, ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(v_placement(3).rank_of, ElementsAre(0, 1, 2, 2, 1, 0));
  EXPECT_THAT(v_placement(3).stages_of(1), ElementsAre(1, 4));
}

TEST(Schedule, StagesPerRankAreCheckedWithTheRemedy) {
  using S = ScheduleName;
  EXPECT_THAT(problems_of(S::OneFOneB, {4, 8, 2}),
              AllOf(HasSubstr("1f1b with 2 stages on each rank"), HasSubstr("exactly 1"), HasSubstr("interleaved_1f1b")));
  EXPECT_THAT(problems_of(S::Interleaved1F1B, {4, 8, 1}), AllOf(HasSubstr("at least 2 stages"), HasSubstr("use 1f1b")));
  EXPECT_THAT(problems_of(S::LoopedBFS, {4, 8, 1}), HasSubstr("use gpipe"));
  EXPECT_THAT(problems_of(S::ZBVZeroBubble, {4, 8, 3}), HasSubstr("exactly 2 stages"));
  EXPECT_EQ(problems_of(S::InterleavedZeroBubble, {4, 8, 1}), "");
}

TEST(Schedule, MicrobatchesAreCheckedWithTheRemedy) {
  using S = ScheduleName;
  // 9 on 4 ranks would be two rounds.
  EXPECT_THAT(problems_of(S::Interleaved1F1B, {4, 9, 2}),
              AllOf(HasSubstr("interleaved_1f1b with 9 microbatches on 4 ranks"), HasSubstr("here 2 (9 / 4"), HasSubstr("use 8 or 10 microbatches")));
  EXPECT_THAT(problems_of(S::InterleavedZeroBubble, {2, 5, 2}), HasSubstr("use 4 or 6 microbatches"));
  for (const auto& [p, m] : {std::pair{2, 3}, {4, 6}, {8, 12}, {4, 2}, {4, 8}})
    EXPECT_EQ(problems_of(S::Interleaved1F1B, {p, m, 2}), "") << p << " " << m;
  EXPECT_EQ(problems_of(S::InterleavedZeroBubble, {2, 5, 1}), "");  // one stage has nothing to divide
  EXPECT_THAT(problems_of(S::DualPipeV, {4, 7, 2}), AllOf(HasSubstr("dualpipev with 7 microbatches"), HasSubstr("use 8 microbatches or more")));
  EXPECT_THAT(test::error_of([] { make_schedule(S::DualPipeV, {4, 7, 2}); }), HasSubstr("dualpipev"));
}

std::vector<std::string> complaints(const std::string& csv, const StagePlacement& placement, int num_microbatches) {
  ProblemList problems;
  check_schedule(parse_csv(csv, "s.csv"), placement, num_microbatches, "s.csv", problems);
  std::vector<std::string> what;
  for (const Problem& problem : problems.problems()) what.push_back(problem.what);
  return what;
}

TEST(CheckSchedule, FindsEveryMistake) {
  const StagePlacement two = loop_placement(2, 1);
  EXPECT_THAT(complaints("0F0,0B0\n1F0,1I0,1W0", two, 1), IsEmpty());
  EXPECT_THAT(complaints("0F0,0B0\n1F0,1I0", two, 1), ElementsAre("1W0 is missing"));
  EXPECT_THAT(complaints("0F0,0B0\n1F0,1B0", two, 2), ElementsAre("0F1 is missing", "0B1 is missing", "1F1 is missing", "1B1 is missing"));
  EXPECT_THAT(complaints("0F0,0B0,0W0\n1B0,1F0", two, 1), ElementsAre("0W0 on rank 0", "1B0 on rank 1"));
  EXPECT_THAT(complaints("0F0,0W0,0I0\n1F0,1F0,1B0", two, 1), ElementsAre("0W0 on rank 0", "1F0 on rank 1"));
  EXPECT_THAT(complaints("0F0,1F0,0B0\n1F0,1B0,1SEND_B0,2F0,1F7", two, 1),
              ElementsAre("1F0 on rank 0", "1SEND_B0 on rank 1", "2F0 on rank 1", "1F7 on rank 1"));
  EXPECT_THAT(complaints("0F0,0B0", two, 1), ElementsAre("1 lists of actions for 2 ranks"));
}

}  // namespace
}  // namespace tessera::pipeline
