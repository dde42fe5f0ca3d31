// What ranks are told when they do not do the same, or not in time.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "distributed/ranks.h"
#include "support/support.h"
#include "tessera/comm/checked_communicator.h"

namespace tessera::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(Work work) {
  return test::error_of([&] { work.wait(); });
}

/// Shortens the timeout while alive.
class ShortTimeout {
 public:
  ShortTimeout() { test::backend().set_timeout(0.3); }
  ~ShortTimeout() { test::backend().set_timeout(20); }
};

RANKS_TEST(CommFailure, OtherCountsAreReportedByBoth, 2) {
  const auto world = test::world_communicator();
  const int rank = world->rank();
  const std::string error = error_of(world->all_reduce(at::zeros({rank == 0 ? 5 : 6})));
  EXPECT_THAT(error,
              HasSubstr(rank == 0 ? "rank 0: all_reduce(sum) of 5 float32, #0 over world (ranks 0 1): rank 1 issued all_reduce(sum) of 6 float32"
                                  : "rank 1: all_reduce(sum) of 6 float32, #0 over world (ranks 0 1): rank 0 issued all_reduce(sum) of 5 float32"));
}

RANKS_TEST(CommFailure, OtherTypesOfOneSizeAreReported, 2) {
  const auto world = test::world_communicator();
  const at::Tensor tensor = at::zeros({4}, world->rank() == 0 ? at::kFloat : at::kInt);
  EXPECT_THAT(error_of(world->all_reduce(tensor)), HasSubstr(world->rank() == 0 ? "rank 1 issued all_reduce(sum) of 4 int32" : "of 4 float32"));
}

RANKS_TEST(CommFailure, OtherOperationsAreReported, 2) {
  const auto world = test::world_communicator();
  const at::Tensor tensor = at::zeros({4});
  const std::vector<std::int64_t> counts{2, 2};
  Work work = world->rank() == 0 ? world->all_reduce(tensor) : world->all_gather(tensor.narrow(0, 2, 2), counts, tensor);
  EXPECT_THAT(error_of(work), HasSubstr(world->rank() == 0 ? "rank 1 issued all_gather" : "rank 0 issued all_reduce"));
}

RANKS_TEST(CommFailure, OtherCountsOfLongTransfersAreReported, 2) {
  const auto world = test::world_communicator();
  const std::int64_t part = world->rank() == 0 ? 40000 : 50000;
  const std::vector<std::int64_t> counts{part, part};
  const at::Tensor output = at::zeros({2 * part});
  Work work = world->all_gather(output.narrow(0, world->rank() * part, part), counts, output);
  EXPECT_THAT(error_of(work), HasSubstr(world->rank() == 0 ? "rank 1 issued all_gather of 100000" : "rank 0 issued all_gather of 80000"));
}

RANKS_TEST(CommFailure, AMessageOfAnotherSizeIsReported, 2) {
  const auto world = test::world_communicator();
  if (world->rank() == 0) {
    world->send(at::zeros({3}), 1).wait();
  } else {
    EXPECT_THAT(error_of(world->receive(at::zeros({4}), 0)),
                AllOf(HasSubstr("receive from 0 of 4 float32"), HasSubstr("issued send to 1 of 3 float32")));
  }
}

RANKS_TEST(CommFailure, AllToAllCountsThatDoNotFit, 2) {
  const auto world = test::world_communicator();
  const std::vector<std::int64_t> sent = world->rank() == 0 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{3, 1};
  const std::vector<std::int64_t> received = world->rank() == 0 ? std::vector<std::int64_t>{1, 4} : std::vector<std::int64_t>{2, 1};
  Work work = world->all_to_all(at::zeros({sent[0] + sent[1]}), sent, at::zeros({received[0] + received[1]}), received);
  if (world->rank() == 0) {
    EXPECT_THAT(error_of(work), HasSubstr("rank 1 sends 12 bytes where 16 are expected"));
  } else {
    work.wait();
  }
}

RANKS_TEST(CommFailure, TheTimeoutNamesTheSilentPeers, 3) {
  const auto world = test::world_communicator();
  {
    const ShortTimeout guard;
    if (world->rank() == 2) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    } else {
      const std::string error = error_of(world->all_reduce(at::zeros({300})));
      EXPECT_THAT(error, AllOf(HasSubstr("all_reduce(sum) of 300 float32, #0 over world (ranks 0 1 2): nothing has moved for 0.3 s"),
                               HasSubstr("nothing heard from rank 2"), HasSubstr("dist_env.timeout_minutes")));
    }
  }
}

RANKS_TEST(CommFailure, ALateRankInTimeIsNoFailure, 2) {
  const auto world = test::world_communicator();
  const ShortTimeout guard;
  if (world->rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(150));
  world->all_reduce(at::zeros({300})).wait();
}

RANKS_TEST(CheckedCommunicator, TellsEachRankWhatTheOthersIssued, 3) {
  const auto world = checked_communicator(test::world_communicator());
  const at::Tensor tensor = at::ones({4});
  world->all_reduce(tensor).wait();
  EXPECT_EQ(tensor[0].item<float>(), 3.0F);
  // Two ranks would wait for each other's broadcast forever; the third does something else.
  Work work = world->rank() == 2 ? world->all_reduce(tensor) : world->broadcast(tensor, world->rank());
  EXPECT_THAT(error_of(work), AllOf(HasSubstr("as #1 over world"), HasSubstr("rank 0: broadcast from 0 of 4 float32"),
                                    HasSubstr("rank 1: broadcast from 1 of 4 float32"), HasSubstr("rank 2: all_reduce(sum) of 4 float32")));
}

RANKS_TEST(CheckedCommunicator, ComparesCountsPerRank, 2) {
  const auto world = checked_communicator(test::world_communicator());
  const std::vector<std::int64_t> counts = world->rank() == 0 ? std::vector<std::int64_t>{1, 3} : std::vector<std::int64_t>{2, 2};
  const at::Tensor output = at::zeros({4});
  Work work = world->all_gather(output.narrow(0, 0, counts[static_cast<std::size_t>(world->rank())]), counts, output);
  EXPECT_THAT(error_of(work), HasSubstr("(other counts per rank)"));
}

RANKS_TEST(CheckedCommunicator, ABarrierAgainstACollective, 2) {
  const auto world = checked_communicator(test::world_communicator());
  const std::string error = test::error_of([&] {
    if (world->rank() == 0) {
      world->barrier();
    } else {
      world->all_reduce(at::zeros({2})).wait();
    }
  });
  EXPECT_THAT(error, AllOf(HasSubstr("rank 0: barrier"), HasSubstr("rank 1: all_reduce(sum) of 2 float32")));
}

TEST(CheckedCommunicator, LetsEqualOperationsThrough) {
  const auto world = checked_communicator(test::world_communicator());
  const at::Tensor tensor = at::ones({1000});
  Work first = world->all_reduce(tensor);
  const at::Tensor other = at::ones({3}, at::kLong);
  world->all_reduce(other, ReduceOperation::Max).wait();
  first.wait();
  world->barrier();
  EXPECT_EQ(tensor[999].item<float>(), static_cast<float>(world->size()));
}

}  // namespace
}  // namespace tessera::comm
