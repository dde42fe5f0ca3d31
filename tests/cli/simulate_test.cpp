#include <gmock/gmock.h>

#include "support/command_line.h"
#include "support/support.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

using test::run_tessera;
using testing::AllOf;
using testing::HasSubstr;

TEST(Simulate, ForPeople) {
  const auto result = run_tessera({"simulate", "--schedule", "1F1B", "--pp", "4", "--microbatches", "8"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.output, AllOf(HasSubstr("schedule     1f1b: 4 ranks with 1 stage each, 8 microbatches\n"), HasSubstr("blocking     none: all "),
                                   HasSubstr("step         33 ms\n"), HasSubstr("bubble       27.27 % of the step"), HasSubstr("per rank: 4 3 2 1\n"),
                                   HasSubstr("rank  3 .........")));
}

TEST(Simulate, ForPrograms) {
  const auto result = run_tessera({"simulate", "--schedule", "zero-bubble", "--pp", "4", "--microbatches", "8", "--stages-per-rank", "1", "--forward",
                                   "2", "--input-grad", "2", "--weight-grad", "2", "--comm", "0", "--json"});
  const Json json = parse_json(result.output, "output");
  EXPECT_EQ(json["schedule"], "interleaved_zero_bubble");
  EXPECT_EQ(json["step_ms"], 54.0);
  EXPECT_EQ(json["peak_activations"], 4);
  EXPECT_EQ(json["ranks"].size(), 4U);
  EXPECT_EQ(json["ranks"][0]["spans"][0], Json::parse(R"({"action": "0F0", "begin_ms": 0.0, "end_ms": 2.0})"));
}

TEST(Simulate, WritesPictures) {
  const test::TemporaryDirectory directory;
  const auto result = run_tessera(
      {"simulate", "--schedule", "dualpipev", "--pp", "2", "--microbatches", "4", "--svg", directory / "a.svg", "--trace", directory / "a.json"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(test::read_file(directory / "a.svg"), HasSubstr("<svg"));
  EXPECT_EQ(read_json_file(directory / "a.json")[0]["ph"], "M");
}

TEST(Simulate, ASchedulesRulesComeWithTheRemedy) {
  const auto result = run_tessera({"simulate", "--schedule", "dfs", "--pp", "4", "--microbatches", "9"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, AllOf(HasSubstr("interleaved_1f1b with 9 microbatches on 4 ranks"), HasSubstr("use 8 or 10 microbatches")));
  EXPECT_THAT(run_tessera({"simulate", "--schedule", "dualpipe", "--pp", "4", "--microbatches", "9"}).error,
              AllOf(HasSubstr("unknown schedule \"dualpipe\""), HasSubstr("did you mean dualpipev")));
  EXPECT_THAT(run_tessera({"simulate", "--schedule", "1f1b", "--pp", "0", "--microbatches", "9"}).error, HasSubstr("--pp"));
}

TEST(Simulate, AScheduleFromAFile) {
  const test::TemporaryDirectory directory;
  const std::string file = directory / "mine.csv";
  test::write_file(file, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_THAT(run_tessera({"simulate", "--schedule", file, "--pp", "2", "--microbatches", "2"}).output, HasSubstr("step         9 ms"));
  EXPECT_THAT(run_tessera({"simulate", "--schedule", file, "--pp", "3", "--microbatches", "3"}).error,
              AllOf(HasSubstr("2 lines for --pp 3"), HasSubstr("0F2 is missing")));
  test::write_file(file, "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  const auto blocked = run_tessera({"simulate", "--schedule", file, "--pp", "2", "--microbatches", "2"});
  EXPECT_EQ(blocked.status, 2);
  EXPECT_THAT(blocked.error, AllOf(HasSubstr("rank 0 waits forever in 0B0"), HasSubstr("rank 1 waits forever in 1F1")));
}

}  // namespace
}  // namespace tessera
