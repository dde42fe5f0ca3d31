#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "distributed/counting_communicator.h"
#include "distributed/delaying_communicator.h"
#include "distributed/ranks.h"
#include "tessera/comm/forwarding_communicator.h"
#include "tessera/comm/recording_communicator.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Of all threads of this process.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

RANKS_TEST(CountingCommunicator, CountsOperationsAndBytes, 4) {
  Traffic traffic;
  const auto world = counting_communicator(test::world_communicator(), traffic);
  const std::vector<std::int64_t> counts{10, 10, 10, 10};
  const at::Tensor whole = at::ones({40});
  const at::Tensor part = at::ones({10});
  world->reduce_scatter(whole, counts, part).wait();
  world->reduce_scatter(whole, counts, part, at::kBFloat16).wait();
  world->all_gather(part, counts, whole).wait();
  world->all_reduce(whole).wait();
  EXPECT_EQ(traffic.num(OperationKind::ReduceScatter), 2);
  EXPECT_EQ(traffic.bytes(OperationKind::ReduceScatter), 30 * 4 + 30 * 2);
  EXPECT_EQ(traffic.bytes(OperationKind::AllGather), 30 * 4);
  EXPECT_EQ(traffic.bytes(OperationKind::AllReduce), 60 * 4);
  EXPECT_EQ(traffic.num(OperationKind::Broadcast), 0);
}

RANKS_TEST(DelayingCommunicator, NothingCompletesEarlierAndDelaysRunSideBySide, 1, 2) {
  const auto world = delaying_communicator(test::world_communicator(), std::chrono::milliseconds(500));
  const at::Tensor a = at::ones({10});
  const at::Tensor b = at::ones({10});
  const Clock::time_point start = Clock::now();
  Work first = world->all_reduce(a);
  Work second = world->all_reduce(b);
  EXPECT_FALSE(first.done());
  first.wait();
  EXPECT_GE(seconds_since(start), 0.5);
  second.wait();
  EXPECT_LT(seconds_since(start), 0.95);
  EXPECT_EQ(b[3].item<float>(), static_cast<float>(world->size()));
}

class Events : public EventSink {
 public:
  void record(const CommunicationEvent& event) override { all.push_back(event); }
  std::vector<CommunicationEvent> all;
};

TEST(RecordingCommunicator, TellsWhenEachOperationBeganAndEnded) {
  Events events;
  const auto backend = decorated_backend(test::backend(), [&](auto inner) { return recording_communicator(std::move(inner), events); });
  std::vector<std::int64_t> everyone;
  for (std::int64_t rank = 0; rank < backend->world_size(); ++rank) everyone.push_back(rank);
  const auto world = backend->communicator(everyone, "dp");
  const at::Tensor tensor = at::ones({25});
  Work work = world->broadcast(tensor, 0);
  EXPECT_TRUE(events.all.empty());
  work.wait();
  ASSERT_EQ(events.all.size(), 1U);
  const CommunicationEvent& event = events.all[0];
  EXPECT_EQ(to_string(event.description), "broadcast from 0 of 25 float32");
  EXPECT_EQ(event.group, world->name());
  EXPECT_EQ(event.description.bytes_sent, backend->rank() == 0 ? 100 : 0);
  EXPECT_LE(event.issued, event.wait_began);
  EXPECT_LE(event.wait_began, event.wait_ended);
  EXPECT_LE(event.issued, event.completed);
  EXPECT_LE(event.completed, event.wait_ended);
}

TEST(RecordingCommunicator, AnOperationIsCompleteBeforeItIsWaitedFor) {
  Events events;
  const auto world = recording_communicator(test::world_communicator(), events);
  Work work = world->all_reduce(at::ones({25}));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  while (!work.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  work.wait();
  EXPECT_LE(events.all.at(0).completed, events.all.at(0).wait_began);
}

RANKS_TEST(MpiBackend, WaitingRanksLeaveTheProcessorAlone, 8) {
  const auto world = test::world_communicator();
  world->barrier();
  const double before = processor_seconds();
  const Clock::time_point start = Clock::now();
  if (world->rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  world->all_reduce(at::ones({100})).wait();
  EXPECT_LT((processor_seconds() - before) / seconds_since(start), 0.12);
}

TEST(MpiBackend, KnowsItsPlaceOnTheHost) {
  EXPECT_EQ(test::backend().local_rank(), test::backend().rank());
  EXPECT_EQ(test::backend().local_size(), test::backend().world_size());
  EXPECT_EQ(test::backend().communicator({test::backend().rank()}, "self")->size(), 1);
}

}  // namespace
}  // namespace tessera::comm
