#include "tessera/optim/lr_schedule.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::optim {
namespace {

using test::error_of;
using testing::HasSubstr;

// schedules.json holds what AutoModel's own class answers (make_schedule_golden.py).
TEST(ScheduleTest, EqualsAutoModel) {
  const Json golden = read_json_file(test::test_data("optim/schedules.json"));
  ASSERT_GE(golden.size(), 13u);
  for (const Json& entry : golden) {
    const LrSchedule schedule = schedule_from_json(entry.at("schedule"), "golden");
    for (std::size_t step = 0; step < entry.at("lr").size(); ++step) {
      EXPECT_DOUBLE_EQ(learning_rate(schedule, static_cast<std::int64_t>(step)), entry.at("lr")[step].get<double>()) << entry.at("schedule") << step;
      EXPECT_DOUBLE_EQ(weight_decay(schedule, static_cast<std::int64_t>(step)), entry.at("weight_decay")[step].get<double>())
          << entry.at("schedule") << step;
    }
  }
}

TEST(ScheduleTest, DerivesWhatTheRecipeLeavesOut) {
  ProblemList problems;
  const LrSchedule schedule = make_lr_schedule({}, 1e-3, 0.1, 500, "recipe.yaml:3", problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(schedule.decay_style, DecayStyle::Cosine);
  EXPECT_DOUBLE_EQ(schedule.init_lr, 1e-4);
  EXPECT_DOUBLE_EQ(schedule.min_lr, 1e-5);
  EXPECT_EQ(schedule.warmup_steps, 50);
  EXPECT_EQ(schedule.decay_steps, 500);
  EXPECT_DOUBLE_EQ(weight_decay(schedule, 77), 0.1);
  EXPECT_EQ(make_lr_schedule({}, 1e-3, 0.1, 50'000, "", problems).warmup_steps, 1000);
}

TEST(ScheduleTest, ConstantScheduleNeverMoves) {
  const LrSchedule schedule = constant_schedule(2e-4, 0.05);
  for (const std::int64_t step : {0, 1, 1000, 1'000'000}) {
    EXPECT_EQ(learning_rate(schedule, step), 2e-4);
    EXPECT_EQ(weight_decay(schedule, step), 0.05);
  }
}

TEST(ScheduleTest, EveryImpossibleValueIsReported) {
  ProblemList problems;
  LrScheduleRequest request;
  request.decay_style = DecayStyle::WSD;
  request.min_lr = 1.0;
  request.init_lr = 2.0;
  request.warmup_steps = 10;
  request.decay_steps = 10;
  request.end_weight_decay = 0.2;
  make_lr_schedule(request, 0.1, 0.1, 100, "recipe.yaml:9", problems);
  const std::string message = error_of([&] { problems.throw_if_any(); });
  for (const char* part :
       {"needs wsd_decay_steps", "needs lr_wsd_decay_style", "min_lr (1) is above max_lr (0.1)", "init_lr (2) is above max_lr (0.1)",
        "lr_warmup_steps (10) is not less than lr_decay_steps (10)", "start_wd (0.1) and end_wd (0.2) differ", "recipe.yaml:9"})
    EXPECT_THAT(message, HasSubstr(part));
}

TEST(ScheduleTest, SurvivesACheckpointExactly) {
  ProblemList problems;
  const LrSchedule schedule = make_lr_schedule({}, 0.1 / 3, 1e-7 / 3, 12345, "", problems);
  EXPECT_EQ(schedule_from_json(parse_json(to_json(schedule).dump(), "test"), "test"), schedule);
  EXPECT_THAT(error_of([] { schedule_from_json(Json{{"lr_decay_style", "cosin"}}, "scheduler.json"); }), HasSubstr("unknown style \"cosin\""));
  EXPECT_THAT(error_of([] { schedule_from_json(Json{{"lr_decay_style", "cosine"}}, "scheduler.json"); }), HasSubstr("init_lr"));
}

TEST(ScheduleTest, ResumeTakesTheSideThatThePolicyNames) {
  const LrSchedule recipe = constant_schedule(1.0, 0.0);
  const LrSchedule saved = constant_schedule(2.0, 0.0);
  EXPECT_EQ(resume_schedule(recipe, saved, ResumeSchedule::Checkpoint, ""), saved);
  EXPECT_EQ(resume_schedule(recipe, saved, ResumeSchedule::Recipe, ""), recipe);
  EXPECT_EQ(resume_schedule(saved, saved, ResumeSchedule::MustAgree, ""), saved);
  EXPECT_THAT(error_of([&] { resume_schedule(recipe, saved, ResumeSchedule::MustAgree, "ckpt"); }),
              HasSubstr("lr_scheduler.max_lr: the recipe says 1.0, the checkpoint 2.0"));
}

}  // namespace
}  // namespace tessera::optim
