// The trace of a run over several ranks tells what every one of them did, and when.
#include "tessera/train/trace.h"

#include <gmock/gmock.h>

#include <set>

#include "distributed/ranks.h"
#include "support/support.h"
#include "tessera/comm/values.h"
#include "tessera/train/run.h"
#include "train/small_recipe.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

constexpr int kTracedSteps = 3;

/// Two blocks, trained for three steps by all ranks; read at rank 0, where `directory` is.
Json traced_run(const fs::path& directory, const std::string& strategy) {
  const auto world = tessera::test::world_communicator();
  const fs::path common = comm::gather(*world, directory.string()).front();
  if (world->rank() == 0) test::load_small_recipe(common);
  world->barrier();
  const std::vector<std::string> overrides{"--distributed.strategy=" + strategy,  "--step_scheduler.global_batch_size=8",
                                           "--step_scheduler.local_batch_size=1", "--checkpoint.enabled=false",
                                           "--validation_dataset=null",           fmt::format("--step_scheduler.max_steps={}", kTracedSteps)};
  train(config::load_recipe(common / "recipe.yaml", overrides, test::no_variables), test::no_variables, tessera::test::backend(),
        common / "trace.json");
  world->barrier();
  Json trace = read_json_file(common / "trace.json");
  world->barrier();
  return trace;
}

/// What one rank is told to have done: complete events as they are; the two ends of an operation as one, with "ts" and "dur".
std::vector<Json> events_of(const Json& trace, std::int64_t rank) {
  std::vector<Json> events;
  std::map<std::string, Json> open;
  for (const Json& event : trace) {
    if (event.at("pid") != rank) continue;
    if (event.at("ph") == "X") events.push_back(event);
    if (event.at("ph") == "b" && !open.emplace(event.at("id"), event).second) ADD_FAILURE() << "begins twice: " << event;
    if (event.at("ph") != "e") continue;
    const auto begun = open.extract(event.at("id").get<std::string>());
    if (begun.empty()) ADD_FAILURE() << "has no beginning: " << event;
    if (begun.empty()) continue;
    events.push_back(begun.mapped());
    events.back()["dur"] = event.at("ts").get<double>() - begun.mapped().at("ts").get<double>();
  }
  EXPECT_TRUE(open.empty()) << "has no end: " << open.begin()->second;
  return events;
}

std::map<std::string, int> count(const std::vector<Json>& events, const char* key, int thread) {
  std::map<std::string, int> counts;
  for (const Json& event : events)
    if (event.at("tid") == thread) ++counts[event.at(key)];
  return counts;
}

void expect_sound(const std::vector<Json>& events) {
  double last_end = 0.0;
  for (const Json& event : events) {
    const double begin = event.at("ts"), duration = event.at("dur");
    EXPECT_GE(begin, 0.0) << event;
    EXPECT_GE(duration, 0.0) << event;
    EXPECT_LT(begin + duration, 120e6) << event;
    if (event.at("tid") != 0) continue;
    EXPECT_GE(begin, last_end - 0.01) << "one thread does one thing at a time: " << event;
    last_end = begin + duration;
  }
}

RANKS_TEST(Trace, HasEveryRankAndUnitAndOperation, 2, 4) {
  const tessera::test::TemporaryDirectory directory;
  const Json trace = traced_run(directory.path(), "fsdp2");
  const std::int64_t ranks = tessera::test::backend().world_size();
  const int passes = kTracedSteps * static_cast<int>(8 / ranks);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(rank);
    const std::vector<Json> events = events_of(trace, rank);
    expect_sound(events);
    const auto computed = count(events, "name", 0), communicated = count(events, "cat", 1);
    for (const char* const unit : {"embedding", "layer 0", "layer 1", "head"})
      for (const char* const pass : {"forward", "backward"}) EXPECT_EQ(computed.at(fmt::format("{} {}", pass, unit)), passes) << pass << unit;
    EXPECT_EQ(computed.at("optimizer"), kTracedSteps);
    // Four buffers: the embedding, which is the head too, two blocks, the final norm. Gradients are reduced once a step, weights gathered for every
    // forward at least.
    EXPECT_EQ(communicated.at("reduce_scatter"), 4 * kTracedSteps);
    EXPECT_GE(communicated.at("all_gather"), 4 * passes);
    for (const Json& event : events) {
      if (event.at("tid") != 1 || event.at("cat") != "reduce_scatter") continue;
      EXPECT_EQ(event.at("args").at("group"), "dp_shard_cp");
      EXPECT_GT(event.at("args").at("bytes"), 0);
      EXPECT_THAT(event.at("name").get<std::string>(), HasSubstr("reduce_scatter of "));
    }
  }
}

RANKS_TEST(Trace, ReplicasReduceEveryUnitOnce, 2) {
  const tessera::test::TemporaryDirectory directory;
  const Json trace = traced_run(directory.path(), "ddp");
  std::set<std::string> reduced;
  for (const Json& event : events_of(trace, 1))
    if (event.at("tid") == 1 && event.at("cat") == "all_reduce" && event.at("args").at("bytes") > 1000)
      reduced.insert(event.at("args").at("group").get<std::string>());
  EXPECT_EQ(reduced.size(), 1U);
}

RANKS_TEST(Trace, IsRefusedBeforeTheRunWhereItCannotBeWritten, 1) {
  const tessera::test::TemporaryDirectory directory;
  const auto recipe = test::load_small_recipe(directory.path());
  const std::string error =
      tessera::test::error_of([&] { train(recipe, test::no_variables, tessera::test::backend(), directory / "absent/trace.json"); });
  EXPECT_THAT(error, HasSubstr("absent/trace.json"));
  EXPECT_FALSE(fs::exists(directory / "logs"));
}

RANKS_TEST(Trace, OfOneProcessHasItsUnits, 1) {
  const tessera::test::TemporaryDirectory directory;
  const Json trace = traced_run(directory.path(), "fsdp2");
  const std::vector<Json> events = events_of(trace, 0);
  expect_sound(events);
  EXPECT_EQ(count(events, "name", 0).at("forward layer 1"), 8 * kTracedSteps);
}

}  // namespace
}  // namespace tessera::train
