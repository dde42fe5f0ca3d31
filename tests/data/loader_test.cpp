#include "tessera/data/loader.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "support/support.h"
#include "tessera/core/error.h"

namespace tessera::data {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

/// Sample i holds the token i, (i mod 5) + 1 times.
class CountingDataset : public Dataset {
 public:
  explicit CountingDataset(std::int64_t size, std::int64_t broken = -1) : size_(size), broken_(broken) {}
  std::int64_t size() const override { return size_; }
  Sample sample(std::int64_t index) const override {
    ++calls;
    if (index == broken_) throw UserError({"data.jsonl:7", "broken", "", ""});
    const auto length = static_cast<std::size_t>(index % 5 + 1);
    return {.input_ids = std::vector<std::int64_t>(length, index),
            .labels = std::vector<std::int64_t>(length, index),
            .document_starts = {},
            .number = index};
  }
  std::string description() const override { return "counting dataset"; }
  mutable std::atomic<int> calls = 0;

 private:
  std::int64_t size_;
  std::int64_t broken_;
};

std::shared_ptr<const CountingDataset> counting(std::int64_t size, std::int64_t broken = -1) {
  return std::make_shared<CountingDataset>(size, broken);
}

std::vector<std::int64_t> real_numbers(const StepBatches& step) {
  std::vector<std::int64_t> numbers;
  for (const Batch& batch : step.microbatches) {
    for (const std::int64_t number : batch.numbers) {
      if (number != kFillerNumber) numbers.push_back(number);
    }
  }
  return numbers;
}

/// The sample numbers of each of the next steps, all ranks in order.
std::vector<std::vector<std::int64_t>> steps_of(std::int64_t num_samples, LoaderOptions options, DataPosition start, int count) {
  std::vector<std::vector<std::int64_t>> steps(static_cast<std::size_t>(count));
  for (options.dp_rank = 0; options.dp_rank < options.dp_size; ++options.dp_rank) {
    Loader loader(counting(num_samples), options, start);
    for (auto& step : steps) {
      for (const std::int64_t number : real_numbers(loader.next())) step.push_back(number);
    }
  }
  return steps;
}

TEST(Loader, StepsOfLikeLengthWhateverTheDataParallelSize) {
  LoaderOptions options{.global_batch_size = 4, .local_batch_size = 1, .group_by_length = true};
  const auto one = steps_of(20, options, {}, 10);
  for (const auto& step : one) {
    ASSERT_EQ(step.size(), 4U);
    for (const std::int64_t number : step) EXPECT_EQ(number % 20 % 5, step.front() % 20 % 5);  // 4 samples of each length
  }
  options.dp_size = 2;
  EXPECT_EQ(steps_of(20, options, {}, 10), one);
}

TEST(Loader, EverySampleOncePerEpoch) {
  Loader loader(counting(29), {.global_batch_size = 8, .local_batch_size = 2});
  EXPECT_EQ(loader.steps_per_epoch(), 4);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> numbers;
    std::int64_t samples = 0;
    for (int number = 0; number < 4; ++number) {
      const StepBatches step = loader.next();
      EXPECT_EQ(step.epoch, epoch);
      EXPECT_EQ(step.ends_epoch, number == 3);
      samples += step.samples;
      for (const std::int64_t sample : real_numbers(step)) numbers.insert(sample);
    }
    EXPECT_EQ(samples, 29);
    EXPECT_EQ(numbers.size(), 29U);
    EXPECT_EQ(*numbers.begin(), epoch * 29);
    EXPECT_EQ(*numbers.rbegin(), epoch * 29 + 28);
  }
}

TEST(Loader, GlobalOrderIsTheSameAtAnyDataParallelSize) {
  const auto alone = steps_of(53, {.global_batch_size = 12}, {}, 11);
  for (const std::int64_t dp_size : {2, 3, 4, 12}) EXPECT_EQ(steps_of(53, {.global_batch_size = 12, .dp_size = dp_size}, {}, 11), alone) << dp_size;
  EXPECT_EQ(steps_of(53, {.global_batch_size = 12, .local_batch_size = 3, .dp_size = 2, .num_workers = 3}, {}, 11), alone);
}

TEST(Loader, ResumesAnywhereAtAnotherDataParallelSize) {
  const LoaderOptions options{.global_batch_size = 12, .local_batch_size = 2, .dp_size = 3};
  const auto uninterrupted = steps_of(53, options, {}, 12);
  Loader first(counting(53), {.global_batch_size = 12, .local_batch_size = 1, .dp_size = 2});
  for (std::size_t stop = 0; stop < 8; ++stop) {
    const auto resumed = steps_of(53, options, first.position(), 4);
    for (std::size_t step = 0; step < 4; ++step) EXPECT_EQ(resumed[step], uninterrupted[stop + step]) << stop;
    first.next();
  }
}

TEST(Loader, WorkersDoNotChangeTheBatches) {
  Loader one(counting(40), {.global_batch_size = 8, .local_batch_size = 2, .num_workers = 1, .steps_ahead = 1});
  Loader many(counting(40), {.global_batch_size = 8, .local_batch_size = 2, .num_workers = 8, .steps_ahead = 5});
  for (int step = 0; step < 30; ++step) {
    const StepBatches a = one.next();
    const StepBatches b = many.next();
    ASSERT_EQ(a.microbatches.size(), b.microbatches.size());
    for (std::size_t i = 0; i < a.microbatches.size(); ++i) {
      EXPECT_EQ(a.microbatches[i].input_ids, b.microbatches[i].input_ids);
      EXPECT_EQ(a.microbatches[i].numbers, b.microbatches[i].numbers);
    }
    EXPECT_EQ(one.position(), many.position());
  }
}

TEST(Loader, RanksWithoutSamplesGetFillers) {
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    Loader loader(counting(14), {.global_batch_size = 12, .local_batch_size = 3, .dp_rank = rank, .dp_size = 4});
    EXPECT_EQ(loader.next().microbatches.size(), 1U);
    const StepBatches last = loader.next();
    EXPECT_EQ(last.samples, 2);
    EXPECT_TRUE(last.ends_epoch);
    ASSERT_EQ(last.microbatches.size(), 1U);
    EXPECT_EQ(last.microbatches[0].rows, 1);
    EXPECT_EQ(last.microbatches[0].numbers[0] == kFillerNumber, rank >= 2);
    if (rank >= 2) {
      EXPECT_THAT(last.microbatches[0].labels, Each(kIgnoredLabel));
    }
  }
}

TEST(Loader, KeepsTheOrderOfTheFileWithoutShuffle) {
  Loader loader(counting(10), {.global_batch_size = 4, .local_batch_size = 4, .shuffle = false});
  EXPECT_THAT(loader.next().microbatches[0].numbers, ::testing::ElementsAre(0, 1, 2, 3));
}

TEST(Loader, WorksAheadOnlyAsFarAsAsked) {
  const auto dataset = counting(1000);
  Loader loader(dataset, {.global_batch_size = 4, .num_workers = 2, .steps_ahead = 3});
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(dataset->calls, 16);
}

TEST(Loader, MemoryOfSpentBatchesIsUsedAgainWithNothingLeftInIt) {
  Loader loader(counting(40), {.global_batch_size = 8, .local_batch_size = 4, .num_workers = 2, .steps_ahead = 2});
  std::set<const std::int64_t*> memory;
  for (int step = 0; step < 50; ++step) {
    for (const Batch& batch : loader.next().microbatches) {
      memory.insert(batch.input_ids.data());
      EXPECT_EQ(batch.rows, 4);
      for (const auto* matrix : {&batch.input_ids, &batch.labels, &batch.position_ids}) EXPECT_EQ(std::ssize(*matrix), batch.rows * batch.length);
      for (std::size_t row = 0; row < 4; ++row) {
        const auto length = static_cast<std::size_t>(batch.length), real = static_cast<std::size_t>(batch.lengths[row]);
        EXPECT_EQ(batch.input_ids[row * length], batch.numbers[row] % 40);
        if (real < length) {
          EXPECT_EQ(batch.labels[row * length + real], kIgnoredLabel);
        }
      }
    }
  }
  EXPECT_LT(memory.size(), 40U);  // of 100 batches; a row that grows longer moves
}

TEST(Loader, ErrorsOfWorkersComeOutOfNext) {
  Loader loader(counting(20, 9), {.global_batch_size = 4, .shuffle = false, .num_workers = 3});
  loader.next();
  loader.next();
  EXPECT_THAT(test::error_of([&] { loader.next(); }), HasSubstr("data.jsonl:7: broken"));
  EXPECT_THAT(test::error_of([&] { loader.next(); }), HasSubstr("data.jsonl:7: broken"));
  EXPECT_EQ(loader.position(), (DataPosition{0, 8}));
}

TEST(Loader, RestoreBeginsAgain) {
  Loader loader(counting(20), {.global_batch_size = 4});
  const auto first = real_numbers(loader.next());
  loader.next();
  loader.restore({});
  EXPECT_EQ(real_numbers(loader.next()), first);
}

TEST(Loader, RefusesAnEmptyDatasetAndSizesThatDoNotFit) {
  EXPECT_THAT(test::error_of([] { Loader(counting(0), {}); }), HasSubstr("the dataset is empty: counting dataset"));
  EXPECT_THAT(test::error_of([] { Loader(counting(9), {.global_batch_size = 3, .local_batch_size = 2}); }), HasSubstr("is not a multiple of"));
}

}  // namespace
}  // namespace tessera::data
