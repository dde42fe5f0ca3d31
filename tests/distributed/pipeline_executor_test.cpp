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

using Clock = std::chrono::steady_clock;
using config::PipelineSchedule;
using testing::HasSubstr;

struct Delays {
  std::chrono::microseconds forward{0}, input_gradient{0}, weight_gradient{0};
};

/// Passes that sleep. An activation says which stage and microbatch made it, a gradient likewise; a microbatch has microbatch + 1 of them, so that
/// every message has a size of its own.
class SleepingStage final : public Stage {
 public:
  SleepingStage(int number, int num_stages, Delays delays) : number_(number), num_stages_(num_stages), delays_(delays) {}

  at::Tensor message(int microbatch) const override { return at::empty({microbatch + 1}); }
  at::Tensor forward(int microbatch, const at::Tensor& input) override {
    EXPECT_EQ(input.defined(), number_ > 0);
    if (input.defined()) expect_from(input, number_ - 1, microbatch);
    EXPECT_TRUE(gathered_);
    spend(delays_.forward);
    return at::full({microbatch + 1}, value(number_, microbatch));
  }
  at::Tensor backward(int microbatch, at::Tensor output_gradient, bool put_off_weights) override {
    EXPECT_EQ(output_gradient.defined(), number_ + 1 < num_stages_);
    if (output_gradient.defined()) expect_from(output_gradient, number_ + 1, microbatch);
    EXPECT_TRUE(gathered_);
    spend(delays_.input_gradient);
    if (!put_off_weights) weight_gradients(microbatch);
    return at::full({microbatch + 1}, value(number_, microbatch));
  }
  void weight_gradients(int microbatch) override {
    EXPECT_TRUE(done_.insert(microbatch).second);
    EXPECT_FALSE(reduced_);
    spend(delays_.weight_gradient);
  }
  void gather() override { gathered_ = true; }
  void free() override { gathered_ = false; }
  void reduce_gradients() override { reduced_ = true; }

  std::size_t num_done() const { return done_.size(); }
  bool is_finished() const { return reduced_ && !gathered_; }
  Clock::duration busy() const { return busy_; }

 private:
  static double value(int stage, int microbatch) { return 1000.0 * stage + microbatch; }
  static void expect_from(const at::Tensor& tensor, int stage, int microbatch) {
    EXPECT_EQ(tensor.numel(), microbatch + 1);
    EXPECT_EQ(tensor.min().item<double>(), value(stage, microbatch));
    EXPECT_EQ(tensor.max().item<double>(), value(stage, microbatch));
  }
  void spend(std::chrono::microseconds delay) {
    if (delay.count() == 0) return;
    const Clock::time_point begin = Clock::now();
    std::this_thread::sleep_for(delay);
    busy_ += Clock::now() - begin;
  }

  int number_, num_stages_;
  Delays delays_;
  bool gathered_ = false, reduced_ = false;
  std::set<int> done_;
  Clock::duration busy_{0};
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

  void run(Delays delays) {
    stages_.clear();
    for (const int stage : placement_.stages_of(rank())) stages_[stage] = std::make_unique<SleepingStage>(stage, placement_.num_stages(), delays);
    execute(lowered_[static_cast<std::size_t>(rank())], placement_, {*activations_, *gradients_}, stages_);
  }

  int rank() const { return activations_->rank(); }
  comm::Communicator& ranks() { return *activations_; }
  const Schedule& lowered() const { return lowered_; }
  const StagePlacement& where() const { return placement_; }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& [number, stage] : stages_) visit(static_cast<const SleepingStage&>(*stage));
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
    pipeline.run({});
    pipeline.for_each([&](const SleepingStage& stage) {
      EXPECT_EQ(stage.num_done(), static_cast<std::size_t>(2 * num_ranks));
      EXPECT_TRUE(stage.is_finished());
    });
  }
}

RANKS_TEST(PipelineExecutor, EvaluationOnAVIsForwardAlone, 2, 4) {
  const StagePlacement v = v_placement(static_cast<int>(test::backend().world_size()));
  Pipeline(forward_schedule(v, 5), v).run({});
}

/// Of the ranks' time, the share in which they compute nothing.
double measured_bubble(Pipeline& pipeline, Delays delays) {
  pipeline.ranks().barrier();
  const Clock::time_point begin = Clock::now();
  pipeline.run(delays);
  pipeline.ranks().barrier();
  const double step = std::chrono::duration<double>(Clock::now() - begin).count();
  double busy = 0.0;
  pipeline.for_each([&](const SleepingStage& stage) { busy += std::chrono::duration<double>(stage.busy()).count(); });
  const std::vector<double> sums = comm::sum(pipeline.ranks(), std::vector{step, busy});
  return 1.0 - sums[1] / sums[0];
}

/// Milliseconds until a small message of another rank is there, on average, where as long as a pass goes by between messages: whoever waits for one
/// has gone to sleep by then.
double message_time(comm::Communicator& ranks, std::chrono::microseconds pass) {
  constexpr int kMessages = 10;
  const at::Tensor message = at::full({8}, 1.0F);
  Clock::duration slept{0};
  const auto sleep_and_send = [&](int to) {
    const Clock::time_point begin = Clock::now();
    std::this_thread::sleep_for(pass);
    slept += Clock::now() - begin;
    ranks.send(message, to).wait();
  };
  ranks.barrier();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kMessages; ++i) {
    if (ranks.rank() == 0) sleep_and_send(1);
    if (ranks.rank() == 1) ranks.receive(message, 0).wait();
    if (ranks.rank() == 1) sleep_and_send(0);
    if (ranks.rank() == 0) ranks.receive(message, 1).wait();
  }
  const Clock::duration own = (ranks.rank() == 0 ? Clock::now() - begin : Clock::duration(0)) - slept;
  return comm::sum(ranks, std::vector{std::chrono::duration<double, std::milli>(own).count()}).front() / (2 * kMessages);
}

/// A machine that does other things only ever adds to the bubble: the least of some attempts is what counts.
void expect_simulated_bubble(PipelineSchedule name, int num_microbatches, Delays delays) {
  Pipeline pipeline(name, num_microbatches);
  const auto milliseconds = [](std::chrono::microseconds time) { return static_cast<double>(time.count()) / 1000.0; };
  const double expected = plan::simulate(pipeline.lowered(), pipeline.where(),
                                         {.forward = milliseconds(delays.forward),
                                          .input_gradient = milliseconds(delays.input_gradient),
                                          .weight_gradient = milliseconds(delays.weight_gradient),
                                          .communication = message_time(pipeline.ranks(), delays.forward)})
                              .bubble_share();
  double measured = 1.0;
  for (int attempt = 0; attempt < 5 && measured > 1.1 * expected; ++attempt) measured = std::min(measured, measured_bubble(pipeline, delays));
  if (pipeline.rank() == 0)
    fmt::print("{} over {} ranks, {} microbatches: bubble {:.2f} %, simulated {:.2f} %\n", config::to_string(name), pipeline.ranks().size(),
               num_microbatches, 100.0 * measured, 100.0 * expected);
  EXPECT_NEAR(measured, expected, 0.1 * expected);
}

RANKS_TEST(PipelineExecutor, TheBubbleIsTheSimulated, 4) {
  expect_simulated_bubble(PipelineSchedule::OneFOneB, 8,
                          {std::chrono::milliseconds(40), std::chrono::milliseconds(40), std::chrono::milliseconds(40)});
}
/// Passes so long that what the executor does between them, which nobody simulates, hides no difference.
RANKS_TEST(PipelineExecutor, LONG_TheBubbleOfEveryScheduleIsTheSimulated, 4) {
  using std::chrono::milliseconds;
  for (const PipelineSchedule name : test::kAnySchedule) {
    const int num_microbatches = 2 * static_cast<int>(test::backend().world_size());
    expect_simulated_bubble(name, num_microbatches, {milliseconds(120), milliseconds(120), milliseconds(120)});
    expect_simulated_bubble(name, num_microbatches, {milliseconds(120), milliseconds(160), milliseconds(80)});
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
        pipeline.run({});
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
