#include "tessera/plan/simulate.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "support/support.h"
#include "tessera/config/pipeline_schedule.h"
#include "tessera/parallel/pipeline/csv.h"
#include "tessera/parallel/pipeline/lowering.h"
#include "tessera/parallel/pipeline/schedule.h"

namespace tessera::plan {
namespace {

using pipeline::Action;
using pipeline::ActionKind;
using pipeline::Schedule;
using pipeline::ScheduleName;
using pipeline::ScheduleSize;
using pipeline::StagePlacement;
using testing::AllOf;
using testing::HasSubstr;

Simulation simulate_csv(const char* csv, const StagePlacement& placement, const Costs& costs = {}) {
  return simulate(pipeline::lower(pipeline::parse_csv(csv, "test"), placement), placement, costs);
}

TEST(Simulate, TwoRanksByHand) {
  // rank 0: F0 from 0 to 1, F1 to 2; B0 from 6 (its gradient leaves rank 1 at 5.5) to 9; B1 from 10 (9.5) to 13
  // rank 1: F0 from 1.5 to 2.5, B0 to 5.5, F1 to 6.5, B1 to 9.5
  const Costs costs{.forward = 1, .input_gradient = 2, .weight_gradient = 1, .communication = 0.5};
  const Simulation result = simulate_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1", pipeline::loop_placement(2, 1), costs);
  const auto begins = [&](std::size_t rank) {
    std::vector<double> times;
    for (const Span& span : result.ranks[rank].spans) times.push_back(span.begin);
    return times;
  };
  EXPECT_THAT(begins(0), testing::ElementsAre(0, 1, 6, 10));
  EXPECT_THAT(begins(1), testing::ElementsAre(1.5, 2.5, 5.5, 6.5));
  EXPECT_DOUBLE_EQ(result.step_time, 13);
  EXPECT_DOUBLE_EQ(result.ranks[0].busy, 8);
  EXPECT_DOUBLE_EQ(result.ranks[0].idle_within, 5);
  EXPECT_DOUBLE_EQ(result.ranks[1].idle_within, 0);
  EXPECT_DOUBLE_EQ(result.bubble_share(), 1 - 16.0 / 26.0);
  EXPECT_EQ(result.ranks[0].peak_activations, 2);
  EXPECT_EQ(result.ranks[1].peak_activations, 1);
}

TEST(Simulate, RanksThatWaitForEachOtherAreNamed) {
  // Rank 1 wants microbatch 0 to come back before it sends 1 on; rank 0 does it the other way round.
  const std::string error = test::error_of([] { simulate_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1", pipeline::loop_placement(2, 1)); });
  EXPECT_THAT(error,
              AllOf(HasSubstr("rank 0 waits forever in 0B0 (action "), HasSubstr("for the input gradient of stage 1 for microbatch 0 on rank 1"),
                    HasSubstr("rank 1 waits forever in 1F1 (action "), HasSubstr("for the output of stage 0 for microbatch 1 on rank 0")));
}

TEST(Simulate, MessagesInAnotherOrderThanTheyAreTakenAreFound) {
  const std::string error = test::error_of([] { simulate_csv("0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1", pipeline::loop_placement(2, 1)); });
  EXPECT_THAT(error, HasSubstr("1F1 would get what was sent for stage 1, microbatch 0"));
}

TEST(Simulate, MessagesThatNobodyTakesAreFound) {
  const StagePlacement placement = pipeline::loop_placement(2, 1);
  const std::string error = test::error_of([&] { simulate(pipeline::parse_csv("0F0,0SEND_F0,0SEND_F0\n1RECV_F0,1F0,1B0", "test"), placement); });
  EXPECT_THAT(error, HasSubstr("nobody receives what is sent to stage 1 for microbatch 0"));
  EXPECT_THAT(test::error_of([&] { simulate(pipeline::parse_csv("0SEND_F0,0F0\n1RECV_F0,1F0", "test"), placement); }),
              HasSubstr("0SEND_F0 comes before the pass whose result it sends"));
}

TEST(Simulate, StagesOnOneRankHandOverWithoutCommunication) {
  const Simulation result = simulate_csv("0F0,1F0,1B0,0B0", {.rank_of = {0, 0}, .num_ranks = 1},
                                         {.forward = 1, .input_gradient = 1, .weight_gradient = 1, .communication = 9});
  EXPECT_DOUBLE_EQ(result.step_time, 6);
  EXPECT_DOUBLE_EQ(result.bubble_share(), 0);
}

/// Every size of a schedule up to 16 ranks and 64 microbatches that keeps its rules.
template <class Check>
void for_every_size(ScheduleName name, const std::vector<int>& stages_per_rank, Check check) {
  int num_sizes = 0;
  for (const int stages : stages_per_rank)
    for (int ranks = 1; ranks <= 16; ++ranks)
      for (int microbatches = 1; microbatches <= 64; ++microbatches) {
        const ScheduleSize size{ranks, microbatches, stages};
        ProblemList problems;
        check_size(name, size, "", problems);
        if (!problems.empty()) continue;
        SCOPED_TRACE(testing::Message() << config::to_string(name) << ": " << ranks << " ranks, " << microbatches << " microbatches, " << stages
                                        << " stages");
        const StagePlacement placement = pipeline::placement(name, size);
        const Schedule schedule = make_schedule(name, size);
        check_schedule(schedule, placement, microbatches, "", problems);  // order and completeness
        ASSERT_TRUE(problems.empty()) << UserError(problems.problems()).what();
        check(size, simulate(pipeline::lower(schedule, placement), placement));  // throws when ranks block
        if (testing::Test::HasFailure()) return;
        ++num_sizes;
      }
  EXPECT_GE(num_sizes, 500);
}

double compute_per_rank(const ScheduleSize& size) { return 3.0 * size.num_microbatches * size.stages_per_rank; }

// Costs of the checks below: forward, input gradient and weight gradient 1 each, communication 0.

// (p − 1) / (m + p − 1) of the step (GPipe, arXiv 1811.06965; PipeDream-flush).
TEST(PublishedBubble, GPipe) {
  for_every_size(ScheduleName::GPipe, {1}, [](const ScheduleSize& size, const Simulation& result) {
    const double p = size.num_ranks, m = size.num_microbatches;
    EXPECT_DOUBLE_EQ(result.bubble_share() + 1, (p - 1) / (m + p - 1) + 1);
    EXPECT_EQ(result.peak_activations(), size.num_microbatches);
  });
}

TEST(PublishedBubble, OneFOneB) {
  for_every_size(ScheduleName::OneFOneB, {1}, [](const ScheduleSize& size, const Simulation& result) {
    const double p = size.num_ranks, m = size.num_microbatches;
    EXPECT_DOUBLE_EQ(result.bubble_share() + 1, (p - 1) / (m + p - 1) + 1);
    for (int rank = 0; rank < size.num_ranks; ++rank)
      EXPECT_EQ(result.ranks[static_cast<std::size_t>(rank)].peak_activations, std::min(size.num_ranks - rank, size.num_microbatches));
  });
}

// (p − 1) / (v · m + p − 1) (Megatron-LM, arXiv 2104.04473, section 2.2), whose m is a multiple of p: with fewer microbatches than ranks the first
// round is not full.
TEST(PublishedBubble, Interleaved1F1B) {
  for_every_size(ScheduleName::Interleaved1F1B, {2, 3}, [](const ScheduleSize& size, const Simulation& result) {
    const double p = size.num_ranks, m = size.num_microbatches, v = size.stages_per_rank;
    if (m >= p) {
      EXPECT_DOUBLE_EQ(result.bubble_share() + 1, (p - 1) / (v * m + p - 1) + 1);
    }
    if (size.num_microbatches % size.num_ranks == 0) {
      EXPECT_LE(result.peak_activations(), size.stages_per_rank * size.num_ranks + size.num_ranks - 1);
    }
  });
}

TEST(PublishedBubble, LoopedBFS) {
  for_every_size(ScheduleName::LoopedBFS, {2, 3}, [](const ScheduleSize& size, const Simulation& result) {
    const double p = size.num_ranks, m = size.num_microbatches, v = size.stages_per_rank;
    if (m >= p) {
      EXPECT_DOUBLE_EQ(result.bubble_share() + 1, (p - 1) / (v * m + p - 1) + 1);
    }
    EXPECT_EQ(result.peak_activations(), size.stages_per_rank * size.num_microbatches);
  });
}

// ZB-H1: (p − 1) · (F + I − W), and no more activations than 1F1B, p (arXiv 2401.10241, table 1, where I is called B). The same with several stages
// on a rank, whose passes are shorter.
TEST(PublishedBubble, InterleavedZeroBubble) {
  for_every_size(ScheduleName::InterleavedZeroBubble, {1, 2, 3}, [](const ScheduleSize& size, const Simulation& result) {
    if (size.num_microbatches >= size.num_ranks) {
      EXPECT_DOUBLE_EQ(result.step_time, compute_per_rank(size) + size.num_ranks - 1);
    }
    if (size.num_microbatches % size.num_ranks == 0) {
      EXPECT_EQ(result.peak_activations(), size.stages_per_rank * size.num_ranks);
    }
  });
}

// ZB-V: no bubble between a rank's first and last action, and the activations of p microbatches, 2 · p of its half as large stages (arXiv 2401.10241,
// section 6). The step is longer than a rank by what the last rank begins later.
TEST(PublishedBubble, ZeroBubbleV) {
  for_every_size(ScheduleName::ZBVZeroBubble, {2}, [](const ScheduleSize& size, const Simulation& result) {
    if (size.num_microbatches >= 2 * size.num_ranks - 1) {
      EXPECT_EQ(result.idle_within(), 0);
      EXPECT_DOUBLE_EQ(result.step_time, compute_per_rank(size) + size.num_ranks - 1);
    }
    EXPECT_LE(result.peak_activations(), 2 * size.num_ranks);
  });
}

/// A rank's actions with every F right before a B in one block, as DualPipeV's authors overlap them; the last rank's first pair stays apart.
std::vector<pipeline::ActionList> blocks_of(const pipeline::ActionList& actions, bool is_last_rank) {
  std::vector<pipeline::ActionList> blocks;
  bool apart = is_last_rank;
  for (const Action& action : actions) {
    const bool pair = action.kind == ActionKind::Backward && !blocks.empty() && blocks.back().back().kind == ActionKind::Forward;
    if (pair && !apart) {
      blocks.back().push_back(action);
    } else {
      blocks.push_back({action});
    }
    if (pair) apart = false;
  }
  return blocks;
}

/// The time of a step in which a block begins when all its passes have their inputs, takes the sum of their costs (F&B = F + B), and gives all its
/// results at its end.
double step_of_blocks(const Schedule& schedule, const StagePlacement& placement, int num_microbatches, const Costs& costs) {
  constexpr double unknown = 1e30;
  const auto index = [&](int stage, int microbatch) { return static_cast<std::size_t>(stage * num_microbatches + microbatch); };
  std::vector<double> outputs(index(placement.num_stages(), 0), unknown), gradients(outputs);
  const auto ready = [&](const Action& action) {
    if (action.kind == ActionKind::WeightGradient || (action.kind == ActionKind::Forward && action.stage == 0)) return 0.0;
    if (action.kind == ActionKind::Forward) return outputs[index(action.stage - 1, action.microbatch)];
    if (action.stage + 1 == placement.num_stages()) return outputs[index(action.stage, action.microbatch)];
    return gradients[index(action.stage + 1, action.microbatch)];
  };
  const auto cost = [&](const Action& action) {
    if (action.kind == ActionKind::Forward) return costs.forward;
    return (makes_input_gradient(action.kind) ? costs.input_gradient : 0) + (makes_weight_gradient(action.kind) ? costs.weight_gradient : 0);
  };
  std::vector<std::vector<pipeline::ActionList>> blocks;
  for (const pipeline::ActionList& actions : schedule) blocks.push_back(blocks_of(actions, &actions == &schedule.back()));
  std::vector<std::size_t> next(schedule.size(), 0);
  std::vector<double> now(schedule.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < schedule.size(); ++rank) {
      for (; next[rank] < blocks[rank].size(); ++next[rank], moved = true) {
        const pipeline::ActionList& block = blocks[rank][next[rank]];
        double begin = now[rank], length = 0;
        for (const Action& action : block) begin = std::max(begin, ready(action)), length += cost(action);
        if (begin == unknown) break;
        now[rank] = begin + length;
        for (const Action& action : block) {
          if (action.kind == ActionKind::Forward) outputs[index(action.stage, action.microbatch)] = now[rank];
          if (makes_input_gradient(action.kind)) gradients[index(action.stage, action.microbatch)] = now[rank];
        }
      }
    }
  }
  return std::ranges::max(now);
}

// DualPipeV: (p − 1) · (F&B + B − 3 · W) with the stages PP = 2 · p (https://github.com/deepseek-ai/DualPipe), where a pair is one block and F = I.
// Tessera's ranks run a pair's parts in turn and hand each result on at once, which leaves (p − 1) · (F + I − W). PP + 1 activations.
TEST(PublishedBubble, DualPipeV) {
  for_every_size(ScheduleName::DualPipeV, {2}, [](const ScheduleSize& size, const Simulation& result) {
    EXPECT_DOUBLE_EQ(result.step_time, compute_per_rank(size) + size.num_ranks - 1);
    EXPECT_EQ(result.peak_activations(), 2 * size.num_ranks + 1);
    for (const Costs& costs : {Costs{1, 1, 1}, Costs{2, 2, 1}, Costs{10, 10, 5}}) {
      const double forward = costs.forward, whole = costs.input_gradient + costs.weight_gradient, both = forward + whole;
      const double step =
          step_of_blocks(make_schedule(ScheduleName::DualPipeV, size), pipeline::v_placement(size.num_ranks), size.num_microbatches, costs);
      EXPECT_DOUBLE_EQ(step, 2 * size.num_microbatches * both + (size.num_ranks - 1) * (both + whole - 3 * costs.weight_gradient));
    }
  });
}

TEST(Simulate, ForwardPassesAloneEndWhereverTheStagesAre) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const StagePlacement& placement : {pipeline::loop_placement(ranks, 1), pipeline::loop_placement(ranks, 3), pipeline::v_placement(ranks)}) {
      const Simulation result = simulate(pipeline::lower(pipeline::forward_schedule(placement, 5), placement), placement);
      EXPECT_GE(result.step_time, 5.0 * placement.num_stages() / ranks);
    }
  }
}

}  // namespace
}  // namespace tessera::plan
