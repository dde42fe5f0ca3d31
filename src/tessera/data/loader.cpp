#include "tessera/data/loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/random.h"
#include "tessera/data/lengths.h"

namespace tessera::data {
namespace {

StepShape shape_of(const Dataset& dataset, const LoaderOptions& options) {
  return {.num_samples = dataset.size(),
          .global_batch_size = options.global_batch_size,
          .local_batch_size = options.local_batch_size,
          .dp_size = options.dp_size,
          .drop_last = options.drop_last};
}

Batch make_microbatch(const Dataset& dataset, const LoaderOptions& options, const SampleOrder& order, std::int64_t epoch, PositionRange positions,
                      Batch spent) {
  if (positions.begin == positions.end) return filler_batch(options.collate);
  std::vector<Sample> samples;
  samples.reserve(static_cast<std::size_t>(positions.end - positions.begin));
  for (std::int64_t position = positions.begin; position < positions.end; ++position) {
    const std::int64_t index = order[position];
    samples.push_back(dataset.sample(index));
    samples.back().number = epoch * dataset.size() + index;
  }
  return collate(samples, options.collate, std::move(spent));
}

/// The first labels of samples from all over the dataset: cutting long samples elsewhere changes neither which samples there are nor their order, and
/// prompts may hold the time of day.
std::string hash_of_labels(const Dataset& dataset) {
  constexpr std::size_t most_labels = 64;
  const std::int64_t num_samples = std::min<std::int64_t>(8, dataset.size());
  std::string bytes;
  for (std::int64_t i = 0; i < num_samples; ++i) {
    std::vector<std::int64_t> labels;
    try {
      labels = dataset.sample(i * dataset.size() / num_samples).labels;
    } catch (const UserError&) {
      // It says so when its turn comes.
    }
    std::erase(labels, kIgnoredLabel);
    labels.resize(std::min(labels.size(), most_labels));
    bytes += fmt::format("{}\n", fmt::join(labels, " "));
  }
  return fmt::format("{:016x}", hash_name(bytes));
}

}  // namespace

/// Steps planned ahead, their microbatches made by worker threads in any order and handed out in the planned one. Batches that were handed out lend
/// their memory to later ones: at the rate of a pre-training file, fresh pages would cost more than filling them.
class Loader::Pipeline {
 public:
  Pipeline(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options, std::shared_ptr<const LengthGroups> groups, DataPosition start)
      : dataset_(std::move(dataset)), options_(options), groups_(std::move(groups)), shape_(shape_of(*dataset_, options)), next_position_(start) {
    const std::lock_guard lock(mutex_);
    while (static_cast<std::int64_t>(steps_.size()) < std::max<std::int64_t>(1, options_.steps_ahead)) plan_one_more();
    for (int worker = 0; worker < std::max(1, options_.num_workers); ++worker) threads_.emplace_back([this](std::stop_token stop) { work(stop); });
  }

  ~Pipeline() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  /// The next step's batches, valid until asked again. `after` becomes where the following step begins.
  const StepBatches& take(DataPosition& after) {
    std::unique_lock lock(mutex_);
    std::ranges::move(taken_.microbatches, std::back_inserter(spent_));
    taken_.microbatches.clear();
    Step& step = steps_.front();
    made_.wait(lock, [&] { return step.num_made == step.plan.num_microbatches; });
    // A step that failed stays in front: asking again reports the same error.
    if (step.error) std::rethrow_exception(step.error);
    taken_ = {std::move(step.batches), step.plan.epoch, step.plan.count, step.plan.ends_epoch};
    after = step.plan.after;
    steps_.pop_front();
    --first_unassigned_;
    plan_one_more();
    wanted_.notify_all();
    return taken_;
  }

 private:
  struct Step {
    StepPlan plan;
    SampleOrder order;
    std::vector<Batch> batches;
    std::int64_t num_assigned = 0;
    std::int64_t num_made = 0;
    std::exception_ptr error;
    std::int64_t error_microbatch = 0;
  };

  void plan_one_more() {
    const StepPlan plan = plan_step(shape_, next_position_);
    next_position_ = plan.after;
    steps_.push_back({.plan = plan,
                      .order = SampleOrder(groups_, shape_.num_samples, options_.shuffle, options_.seed, plan.epoch),
                      .batches = std::vector<Batch>(static_cast<std::size_t>(plan.num_microbatches)),
                      .error = nullptr});
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wanted_.wait(lock, stop, [this] { return first_unassigned_ < steps_.size(); }) && !stop.stop_requested()) {
      // A deque keeps references to other elements valid when the front is popped or the back grows, and a step with work under way is never popped.
      Step& step = steps_[first_unassigned_];
      const std::int64_t microbatch = step.num_assigned++;
      if (step.num_assigned == step.plan.num_microbatches) ++first_unassigned_;
      make(step, microbatch, lock);
      if (++step.num_made == step.plan.num_microbatches) made_.notify_all();
    }
  }

  /// Lets others have the lock while it works.
  void make(Step& step, std::int64_t microbatch, std::unique_lock<std::mutex>& lock) {
    Batch& batch = step.batches[static_cast<std::size_t>(microbatch)];
    if (!spent_.empty()) {
      batch = std::move(spent_.back());
      spent_.pop_back();
    }
    lock.unlock();
    try {
      batch = make_microbatch(*dataset_, options_, step.order, step.plan.epoch, microbatch_positions(shape_, step.plan, options_.dp_rank, microbatch),
                              std::move(batch));
      lock.lock();
    } catch (...) {
      lock.lock();
      if (step.error && microbatch > step.error_microbatch) return;
      step.error = std::current_exception();
      step.error_microbatch = microbatch;
    }
  }

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::shared_ptr<const LengthGroups> groups_;
  StepShape shape_;
  std::mutex mutex_;
  std::condition_variable_any wanted_;
  std::condition_variable made_;
  StepBatches taken_;                  ///< what `take` handed out last
  std::vector<Batch> spent_;           ///< of earlier steps; their memory is used again
  DataPosition next_position_;         ///< of the first step not yet planned
  std::deque<Step> steps_;             ///< the front is what `take` hands out next
  std::size_t first_unassigned_ = 0;   ///< index in `steps_` of the first with a microbatch nobody works on
  std::vector<std::jthread> threads_;  ///< last: they stop before anything they use goes away
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, DataPosition start)
    : dataset_(std::move(dataset)), options_(options), position_(start) {
  TESSERA_ASSERT(options_.dp_rank >= 0 && options_.dp_rank < options_.dp_size, "the data-parallel rank lies inside its group");
  if (dataset_->size() == 0)
    throw UserError({"", "the dataset is empty: " + description(), "training needs at least one sample",
                     "check the dataset's path and split, and what is left out"});
  check_step_shape(shape_of(*dataset_, options_));
  if (options_.group_by_length)
    groups_ = std::make_shared<LengthGroups>(group_by_length(sample_lengths(*dataset_, options_.num_workers), options_.global_batch_size));
  restore(start);
}

Loader::~Loader() = default;

const StepBatches& Loader::next() {
  if (!pipeline_) pipeline_ = std::make_unique<Pipeline>(dataset_, options_, groups_, position_);
  return pipeline_->take(position_);
}

DataPosition Loader::position() const { return position_; }

void Loader::restore(DataPosition position) {
  TESSERA_ASSERT(position.epoch >= 0 && position.consumed >= 0, "a position in the data is not negative");
  pipeline_.reset();
  position_ = position;
}

std::int64_t Loader::steps_per_epoch() const { return data::steps_per_epoch(shape_of(*dataset_, options_)); }

const Dataset& Loader::dataset() const { return *dataset_; }

std::string Loader::description() const { return options_.redact ? options_.redact(dataset_->description()) : dataset_->description(); }

const LoaderOptions& Loader::options() const { return options_; }

const std::string& Loader::label_hash() {
  if (label_hash_.empty()) label_hash_ = hash_of_labels(*dataset_);
  return label_hash_;
}

}  // namespace tessera::data
