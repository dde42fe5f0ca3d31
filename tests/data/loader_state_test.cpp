#include "tessera/data/loader_state.h"

#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/core/error.h"

namespace tessera::data {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Sample i teaches the tokens base + i, `length` times, after a prompt.
class Words : public Dataset {
 public:
  explicit Words(std::int64_t size, std::int64_t base = 0, std::size_t length = 3, std::int64_t prompt = 1)
      : size_(size), base_(base), length_(length), prompt_(prompt) {}
  std::int64_t size() const override { return size_; }
  Sample sample(std::int64_t index) const override {
    if (index == broken) throw UserError({"data.jsonl:1", "broken", "", ""});
    Sample sample{.input_ids = {prompt_}, .labels = {kIgnoredLabel}};
    sample.input_ids.resize(length_ + 1, base_ + index);
    sample.labels.resize(length_ + 1, base_ + index);
    return sample;
  }
  std::string description() const override { return "words from " + std::to_string(base_); }
  std::int64_t broken = -1;

 private:
  std::int64_t size_, base_;
  std::size_t length_;
  std::int64_t prompt_;
};

Loader loader_of(const Words& words = Words(20), LoaderOptions options = {.global_batch_size = 4}) {
  return {std::make_shared<Words>(words), std::move(options)};
}

/// Five steps are an epoch.
Json state_after(int steps, LoaderOptions options = {.global_batch_size = 4}) {
  Loader loader = loader_of(Words(20), std::move(options));
  for (int step = 0; step < steps; ++step) loader.next();
  return Json::parse(loader_state(loader).dump());
}

TEST(LoaderState, GoesThroughJsonToAnotherNumberOfRanks) {
  Loader other = loader_of(Words(20), {.global_batch_size = 4, .dp_rank = 1, .dp_size = 2, .num_workers = 3});
  restore_loader(other, state_after(1), "loader.json");
  EXPECT_EQ(other.position(), (DataPosition{0, 4}));
}

struct Change {
  std::string key;
  LoaderOptions options;
  Words words = Words(20);
  std::vector<std::string> values;
};

const std::vector<Change>& changes() {
  static const std::vector<Change> all{
      {"seed", {.global_batch_size = 4, .seed = 43}, Words(20), {"42 in the checkpoint", "43 in the recipe"}},
      {"dataloader.shuffle", {.global_batch_size = 4, .shuffle = false}, Words(20), {"true in the checkpoint", "false in the recipe"}},
      {"dataset", {.global_batch_size = 4}, Words(20, 7), {"checkpoint: 20 samples (words from 0)", "recipe:     20 samples (words from 7)"}},
      {"dataset", {.global_batch_size = 4}, Words(21), {"checkpoint: 20 samples", "recipe:     21 samples"}},
  };
  return all;
}

TEST(LoaderState, InTheMiddleOfAnEpochNothingMayChangeTheOrder) {
  for (const Change& change : changes()) {
    Loader loader = loader_of(change.words, change.options);
    const std::string error = error_of([&] { restore_loader(loader, state_after(1), "loader.json"); });
    EXPECT_THAT(error, AllOf(HasSubstr("loader.json: " + change.key + ": "), HasSubstr(change.values[0]), HasSubstr(change.values[1])));
    EXPECT_EQ(loader.position(), DataPosition{}) << "left alone";
  }
}

TEST(LoaderState, AtTheBeginningOfAnEpochItIsNoted) {
  for (const Change& change : changes()) {
    Loader loader = loader_of(change.words, change.options);
    testing::internal::CaptureStderr();
    restore_loader(loader, state_after(5), "loader.json");
    EXPECT_THAT(testing::internal::GetCapturedStderr(), AllOf(HasSubstr("from epoch 1 on"), HasSubstr(change.key), HasSubstr(change.values[0])));
    EXPECT_EQ(loader.position(), (DataPosition{1, 0}));
  }
}

TEST(LoaderState, GroupsOfLikeLengthStayOfOneSize) {
  const auto error = [](LoaderOptions saved, LoaderOptions now) {
    Loader loader = loader_of(Words(20), std::move(now));
    return error_of([&] { restore_loader(loader, state_after(1, saved), "loader.json"); });
  };
  const LoaderOptions grouped{.global_batch_size = 4, .group_by_length = true};
  EXPECT_THAT(error(grouped, {.global_batch_size = 2}),
              AllOf(HasSubstr("dataloader.group_by_length: true in the checkpoint, false in the recipe"), Not(HasSubstr("global_batch_size"))));
  EXPECT_THAT(error(grouped, {.global_batch_size = 2, .group_by_length = true}),
              HasSubstr("step_scheduler.global_batch_size: 4 in the checkpoint, 2 in the recipe"));
  Loader loader = loader_of(Words(20), {.global_batch_size = 2});
  restore_loader(loader, state_after(1), "loader.json");
  EXPECT_EQ(loader.position(), (DataPosition{0, 4})) << "without groups any size goes on";
}

TEST(LoaderState, HoldsTheRedactedDescription) {
  const auto state = [](LoaderOptions options) {
    Loader loader = loader_of(Words(20), std::move(options));
    return loader_state(loader)["dataset"];
  };
  EXPECT_EQ(state({.global_batch_size = 4}), "words from 0");
  EXPECT_EQ(state({.global_batch_size = 4, .redact = [](const std::string& text) { return text.substr(0, 5); }}), "words");
}

TEST(LoaderState, PromptsAndWhereLongSamplesAreCutDoNotMatter) {
  Loader loader = loader_of(Words(20, 0, 3, 2));
  restore_loader(loader, state_after(1), "loader.json");
  EXPECT_EQ(loader.position(), (DataPosition{0, 4}));
  Loader long_samples = loader_of(Words(20, 0, 200)), longer = loader_of(Words(20, 0, 300));
  EXPECT_EQ(long_samples.label_hash(), longer.label_hash());
}

TEST(LoaderState, ASampleThatCannotBeMadeIsNoReasonToStop) {
  Words words(20);
  words.broken = 0;
  Loader loader = loader_of(words);
  EXPECT_FALSE(loader.label_hash().empty());
}

TEST(LoaderState, OfAnEarlierVersionComparesWhatItHas) {
  Loader loader = loader_of(Words(20, 7), {.global_batch_size = 4, .seed = 43});
  restore_loader(loader, Json::parse(R"({"epoch": 0, "consumed": 4, "num_samples": 20})"), "loader.json");
  EXPECT_EQ(loader.position(), (DataPosition{0, 4}));
}

TEST(LoaderState, RefusesBrokenState) {
  Loader loader = loader_of();
  EXPECT_THAT(error_of([&] { restore_loader(loader, Json::parse(R"({"num_samples": 20, "epoch": -1})"), "state.json"); }),
              HasSubstr("state.json: the loader's state has no count 'epoch'"));
}

}  // namespace
}  // namespace tessera::data
