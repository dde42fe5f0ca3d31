// Lists of actions over real ranks: what arrives where, how long it takes beside what the simulator says, and what is said when nothing arrives.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <set>
#include <thread>

#include "distributed/ranks.h"
#include "distributed/schedules.h"
#include "tessera/comm/values.h"
#include "tessera/config/pipeline_schedule.h"
#include "tessera/core/error.h"
#include "tessera/parallel/pipeline/execute/executor.h"
#include "tessera/parallel/pipeline/lowering.h"
#include "tessera/parallel/pipeline/schedule.h"
#include "tessera/plan/simulate.h"

namespace tessera::pipeline {
namespace {

using config::PipelineSchedule;
using testing::HasSubstr;

/// A rank's time in milliseconds, which passes as the costs say: the same on any machine. In a clock that runs, it passes in reality too.
struct Clock {
  plan::Costs costs{.forward = 0.0, .input_gradient = 0.0, .weight_gradient = 0.0};
  bool runs = false;
  double now = 0.0, busy = 0.0;
  double slept = 0.0;  ///< what the system made of busy

  void wait_until(double time) { now = std::max(now, time); }
  void spend(double milliseconds) {
    now += milliseconds;
    busy += milliseconds;
    if (!runs) return;
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(Milliseconds(milliseconds));
    slept += Milliseconds(std::chrono::steady_clock::now() - begin).count();
  }

  using Milliseconds = std::chrono::duration<double, std::milli>;
};

/// Passes that only take time. An activation says which stage and microbatch made it, and when; a gradient likewise. Every message has a size of its
/// own.
class TimedStage final : public Stage {
 public:
  TimedStage(int number, const StagePlacement& placement, Clock& clock) : number_(number), placement_(placement), clock_(clock) {}

  at::Tensor message(int microbatch) const override { return at::empty({microbatch + 2}, at::kDouble); }
  at::Tensor forward(int microbatch, const at::Tensor& input) override {
    take(input, number_ - 1, microbatch);
    EXPECT_TRUE(gathered_);
    clock_.spend(clock_.costs.forward);
    return made(microbatch);
  }
  at::Tensor backward(int microbatch, at::Tensor output_gradient, bool put_off_weights) override {
    take(output_gradient, number_ + 1, microbatch);
    EXPECT_TRUE(gathered_);
    clock_.spend(clock_.costs.input_gradient);
    if (!put_off_weights) weight_gradients(microbatch);
    return made(microbatch);
  }
  void weight_gradients(int microbatch) override {
    EXPECT_TRUE(done_.insert(microbatch).second);
    EXPECT_FALSE(reduced_);
    clock_.spend(clock_.costs.weight_gradient);
  }
  void gather() override { gathered_ = true; }
  void free() override { gathered_ = false; }
  void reduce_gradients() override { reduced_ = true; }

  std::size_t num_done() const { return done_.size(); }
  bool is_finished() const { return reduced_ && !gathered_; }

 private:
  static double label(int stage, int microbatch) { return 1000.0 * stage + microbatch; }
  at::Tensor made(int microbatch) const {
    at::Tensor message = at::full({microbatch + 2}, label(number_, microbatch), at::kDouble);
    message[-1] = clock_.now;
    return message;
  }
  void take(const at::Tensor& message, int from, int microbatch) {
    const bool exists = from >= 0 && from < placement_.num_stages();
    EXPECT_EQ(message.defined(), exists);
    if (!exists) return;
    EXPECT_EQ(message.numel(), microbatch + 2);
    const at::Tensor labels = message.narrow(0, 0, microbatch + 1);
    EXPECT_EQ(labels.min().item<double>(), label(from, microbatch));
    EXPECT_EQ(labels.max().item<double>(), label(from, microbatch));
    const bool travelled = rank_of(from) != rank_of(number_);
    clock_.wait_until(message[-1].item<double>() + (travelled ? clock_.costs.communication : 0.0));
  }
  int rank_of(int stage) const { return placement_.rank_of[static_cast<std::size_t>(stage)]; }

  int number_;
  const StagePlacement& placement_;
  Clock& clock_;
  bool gathered_ = false, reduced_ = false;
  std::set<int> done_;
};

/// All ranks of the test as one pipeline.
class Pipeline {
 public:
  Pipeline(Schedule schedule, StagePlacement placement) : placement_(std::move(placement)), lowered_(lower(schedule, placement_)) {}
  Pipeline(PipelineSchedule name, int num_microbatches)
      : Pipeline(make_schedule(name, size(name, num_microbatches)), placement(name, size(name, 1))) {}

  static ScheduleSize size(PipelineSchedule name, int num_microbatches) {
    return {.num_ranks = static_cast<int>(test::backend().world_size()),
            .num_microbatches = num_microbatches,
            .stages_per_rank = default_stages_per_rank(name)};
  }

  /// This rank's clock when its list is done.
  Clock run(Clock clock = {}) {
    stages_.clear();
    for (const int stage : placement_.stages_of(rank())) stages_[stage] = std::make_unique<TimedStage>(stage, placement_, clock);
    execute(lowered_[static_cast<std::size_t>(rank())], placement_, {*activations_, *gradients_}, stages_);
    return clock;
  }

  int rank() const { return activations_->rank(); }
  comm::Communicator& ranks() { return *activations_; }
  const Schedule& lowered() const { return lowered_; }
  const StagePlacement& where() const { return placement_; }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [number, stage] : stages_) visit(static_cast<const TimedStage&>(*stage));
  }

 private:
  StagePlacement placement_;
  Schedule lowered_;
  std::unique_ptr<comm::Communicator> activations_ = test::world_communicator(), gradients_ = test::world_communicator();
  Stages stages_;
};

RANKS_TEST(PipelineExecutor, EveryPassGetsWhatIsItsOwn, 2, 3, 4, 8) {
  const int num_ranks = static_cast<int>(test::backend().world_size());
  for (const PipelineSchedule name : test::kAnySchedule) {
    SCOPED_TRACE(std::string(config::to_string(name)));
    Pipeline pipeline(name, 2 * num_ranks);
    pipeline.run();
    pipeline.for_each([&](const TimedStage& stage) {
      EXPECT_EQ(stage.num_done(), static_cast<std::size_t>(2 * num_ranks));
      EXPECT_TRUE(stage.is_finished());
    });
  }
}

RANKS_TEST(PipelineExecutor, EvaluationOnAVIsForwardAlone, 2, 4) {
  const StagePlacement v = v_placement(static_cast<int>(test::backend().world_size()));
  Pipeline(forward_schedule(v, 5), v).run();
}

/// Each rank ends when the simulation says, to the bit: passes wait for their messages and for nothing else.
RANKS_TEST(PipelineExecutor, RanksEndWhenTheSimulationSays, 2, 3, 4, 8) {
  const plan::Costs costs{.forward = 40.0, .input_gradient = 56.0, .weight_gradient = 31.0, .communication = 3.0};
  for (const PipelineSchedule name : test::kAnySchedule) {
    SCOPED_TRACE(std::string(config::to_string(name)));
    Pipeline pipeline(name, 2 * static_cast<int>(test::backend().world_size()));
    const Clock clock = pipeline.run({.costs = costs});
    const plan::Simulation simulation = plan::simulate(pipeline.lowered(), pipeline.where(), costs);
    const plan::RankTimeline& timeline = simulation.ranks[static_cast<std::size_t>(pipeline.rank())];
    EXPECT_EQ(clock.now, timeline.spans.back().end);
    EXPECT_EQ(clock.busy, timeline.busy);
  }
}

/// Of the ranks' time, the share in which they compute nothing, by the clock on the wall.
double measured_bubble(Pipeline& pipeline, const plan::Costs& costs) {
  pipeline.ranks().barrier();
  const auto begin = std::chrono::steady_clock::now();
  const Clock clock = pipeline.run({.costs = costs, .runs = true});
  pipeline.ranks().barrier();
  const double step = Clock::Milliseconds(std::chrono::steady_clock::now() - begin).count();
  const std::vector<double> sums = comm::sum(pipeline.ranks(), std::vector{step, clock.slept});
  return 1.0 - sums[1] / sums[0];
}

/// Milliseconds until a small message of another rank is there, on average, where as long as a pass goes by between messages: whoever waits for one
/// has gone to sleep by then.
double message_time(comm::Communicator& ranks, double pass) {
  constexpr int kMessages = 10;
  const at::Tensor message = at::full({8}, 1.0F);
  Clock clock{.runs = true};
  const auto sleep_and_send = [&](int to) {
    clock.spend(pass);
    ranks.send(message, to).wait();
  };
  ranks.barrier();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kMessages; ++i) {
    if (ranks.rank() == 0) sleep_and_send(1);
    if (ranks.rank() == 1) ranks.receive(message, 0).wait();
    if (ranks.rank() == 1) sleep_and_send(0);
    if (ranks.rank() == 0) ranks.receive(message, 1).wait();
  }
  const double elapsed = ranks.rank() == 0 ? Clock::Milliseconds(std::chrono::steady_clock::now() - begin).count() : 0.0;
  return comm::sum(ranks, std::vector{elapsed - clock.slept}).front() / (2 * kMessages);
}

/// A machine that does other things only ever adds to the bubble: the least of some attempts is what counts.
void expect_simulated_bubble(PipelineSchedule name, int num_microbatches, plan::Costs costs) {
  Pipeline pipeline(name, num_microbatches);
  costs.communication = message_time(pipeline.ranks(), costs.forward);
  const double expected = plan::simulate(pipeline.lowered(), pipeline.where(), costs).bubble_share();
  double measured = 1.0;
  for (int attempt = 0; attempt < 5 && measured > 1.1 * expected; ++attempt) measured = std::min(measured, measured_bubble(pipeline, costs));
  if (pipeline.rank() == 0)
    fmt::print("{} over {} ranks, {} microbatches: bubble {:.2f} %, simulated {:.2f} %\n", config::to_string(name), pipeline.ranks().size(),
               num_microbatches, 100.0 * measured, 100.0 * expected);
  EXPECT_NEAR(measured, expected, 0.1 * expected);
}

/// In real time, on a machine that does little else: passes so long that what the executor does between them, which nobody simulates, hides no
/// difference.
RANKS_TEST(PipelineExecutor, LONG_TheBubbleOfEveryScheduleIsTheSimulated, 4) {
  for (const PipelineSchedule name : test::kAnySchedule) {
    const int num_microbatches = 2 * static_cast<int>(test::backend().world_size());
    expect_simulated_bubble(name, num_microbatches, {.forward = 120.0, .input_gradient = 120.0, .weight_gradient = 120.0});
    expect_simulated_bubble(name, num_microbatches, {.forward = 120.0, .input_gradient = 160.0, .weight_gradient = 80.0});
  }
}

/// Passes of the last rank take longer than anybody waits.
RANKS_TEST(PipelineExecutor, AStallNamesTheActionAndThePeer, 2, 4) {
  struct ShortPatience {
    ShortPatience() { test::backend().set_timeout(1); }
    ~ShortPatience() { test::backend().set_timeout(20); }
  };
  const int last = static_cast<int>(test::backend().world_size()) - 1;
  std::string said;
  {
    const ShortPatience patience;
    Pipeline pipeline(PipelineSchedule::OneFOneB, 4);
    if (pipeline.rank() == last) {
      std::this_thread::sleep_for(std::chrono::seconds(4));
    } else {
      try {
        pipeline.run();
      } catch (const Failure& failure) {
        said = failure.what();
      }
    }
  }
  const auto world = test::world_communicator();
  const std::vector<std::string> of_ranks = comm::gather(*world, said);
  EXPECT_THAT(of_ranks[static_cast<std::size_t>(last) - 1],
              HasSubstr(fmt::format("rank {} waits for {}RECV_B0 (from rank {})", last - 1, last - 1, last)));
  EXPECT_THAT(of_ranks[0], HasSubstr("pipeline: rank 0 waits for 0RECV_B0 (from rank 1)"));
  EXPECT_EQ(of_ranks[static_cast<std::size_t>(last)], "");
}

}  // namespace
}  // namespace tessera::pipeline
