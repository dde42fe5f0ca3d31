#include "tessera/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tessera/core/error.h"

namespace tessera::data {
namespace {

/// Luby and Rackoff need four for large grids; more of them make every order of a small dataset about equally likely.
constexpr std::uint64_t feistel_rounds = 12;

std::int64_t divide_rounding_up(std::int64_t dividend, std::int64_t divisor) { return (dividend + divisor - 1) / divisor; }

/// Start of part `index` when `count` things are cut into `parts` whose sizes differ by one at most, the longer ones first.
std::int64_t part_begin(std::int64_t count, std::int64_t parts, std::int64_t index) { return count / parts * index + std::min(index, count % parts); }

void require_positive(ProblemList& problems, const char* name, std::int64_t value) {
  if (value >= 1) return;
  problems.add({"", fmt::format("{} is {}", name, value), "a step takes samples", fmt::format("set {} to 1 or more", name)});
}

}  // namespace

EpochOrder::EpochOrder(std::int64_t num_samples, bool shuffle, std::uint64_t seed, std::int64_t epoch)
    : num_samples_(num_samples), shuffle_(shuffle), random_(seed, "sample order", static_cast<std::uint64_t>(epoch)) {
  TESSERA_ASSERT(num_samples >= 1 && epoch >= 0, "an epoch has samples and a number");
  rows_ = std::max<std::uint64_t>(num_samples >= 3 ? 2 : 1, static_cast<std::uint64_t>(std::sqrt(static_cast<double>(num_samples))));
  columns_ = (static_cast<std::uint64_t>(num_samples) + rows_ - 1) / rows_;
}

std::int64_t EpochOrder::operator[](std::int64_t position) const {
  TESSERA_ASSERT(position >= 0 && position < num_samples_, "position outside the epoch");
  if (!shuffle_) return position;
  // The grid holds fewer than √n cells too many: a walk that lands on one of them goes on until it is back inside.
  auto cell = static_cast<std::uint64_t>(position);
  do {
    std::uint64_t row = cell / columns_;
    std::uint64_t column = cell % columns_;
    for (std::uint64_t round = 0; round < feistel_rounds; round += 2) {
      row = (row + random_.below(rows_, round << 40 | column)) % rows_;
      column = (column + random_.below(columns_, (round + 1) << 40 | row)) % columns_;
    }
    cell = row * columns_ + column;
  } while (cell >= static_cast<std::uint64_t>(num_samples_));
  return static_cast<std::int64_t>(cell);
}

LengthGroups group_by_length(std::span<const std::int32_t> lengths, std::int64_t group_size) {
  LengthGroups groups{.by_length = std::vector<std::int64_t>(lengths.size()), .group_size = group_size};
  std::iota(groups.by_length.begin(), groups.by_length.end(), std::int64_t{0});
  std::ranges::stable_sort(groups.by_length, std::greater<>(), [&](std::int64_t index) { return lengths[static_cast<std::size_t>(index)]; });
  return groups;
}

SampleOrder::SampleOrder(std::shared_ptr<const LengthGroups> groups, std::int64_t num_samples, bool shuffle, std::uint64_t seed, std::int64_t epoch)
    : groups_(std::move(groups)),
      order_(groups_ ? std::max<std::int64_t>(1, num_samples / groups_->group_size) : num_samples, shuffle, seed, epoch) {}

std::int64_t SampleOrder::operator[](std::int64_t position) const {
  if (!groups_) return order_[position];
  const std::int64_t group = position / groups_->group_size;
  const bool is_full = (group + 1) * groups_->group_size <= std::ssize(groups_->by_length);
  const std::int64_t shuffled = is_full ? order_[group] : group;
  return groups_->by_length[static_cast<std::size_t>(shuffled * groups_->group_size + position % groups_->group_size)];
}

void check_step_shape(const StepShape& shape) {
  ProblemList problems;
  require_positive(problems, "the number of samples", shape.num_samples);
  require_positive(problems, "global_batch_size", shape.global_batch_size);
  require_positive(problems, "local_batch_size", shape.local_batch_size);
  require_positive(problems, "the data-parallel size", shape.dp_size);
  problems.throw_if_any();
  const std::int64_t at_once = shape.local_batch_size * shape.dp_size;
  if (shape.global_batch_size % at_once != 0) {
    problems.add({"",
                  fmt::format("global_batch_size: {} is not a multiple of local_batch_size × data-parallel size ({} × {})", shape.global_batch_size,
                              shape.local_batch_size, shape.dp_size),
                  "a step is a whole number of microbatches on every data-parallel rank",
                  fmt::format("use global_batch_size {}", divide_rounding_up(shape.global_batch_size, at_once) * at_once)});
  }
  if (shape.drop_last && shape.num_samples < shape.global_batch_size) {
    problems.add({"",
                  fmt::format("drop_last leaves nothing: the dataset has {} samples, a step takes {}", shape.num_samples, shape.global_batch_size),
                  "with drop_last only full steps are run", "use a smaller global_batch_size, or drop_last: false"});
  }
  problems.throw_if_any();
}

std::int64_t steps_per_epoch(const StepShape& shape) {
  if (shape.drop_last) return shape.num_samples / shape.global_batch_size;
  return divide_rounding_up(shape.num_samples, shape.global_batch_size);
}

StepPlan plan_step(const StepShape& shape, const DataPosition& position) {
  const auto left_at = [&](std::int64_t consumed) { return shape.num_samples - consumed; };
  const auto exhausted = [&](std::int64_t consumed) {
    return left_at(consumed) <= 0 || (shape.drop_last && left_at(consumed) < shape.global_batch_size);
  };
  DataPosition start = position;
  // A run with another global batch size may have stopped where this one would already have ended the epoch.
  if (exhausted(start.consumed)) start = {start.epoch + 1, 0};

  StepPlan plan;
  plan.epoch = start.epoch;
  plan.first = start.consumed;
  plan.count = std::min(shape.global_batch_size, left_at(start.consumed));
  const std::int64_t most_per_rank = divide_rounding_up(plan.count, shape.dp_size);
  plan.num_microbatches = divide_rounding_up(most_per_rank, shape.local_batch_size);
  const std::int64_t consumed = start.consumed + plan.count;
  plan.ends_epoch = exhausted(consumed);
  plan.after = plan.ends_epoch ? DataPosition{start.epoch + 1, 0} : DataPosition{start.epoch, consumed};
  return plan;
}

PositionRange microbatch_positions(const StepShape& shape, const StepPlan& plan, std::int64_t dp_rank, std::int64_t microbatch) {
  const std::int64_t rank_begin = plan.first + part_begin(plan.count, shape.dp_size, dp_rank);
  const std::int64_t rank_end = plan.first + part_begin(plan.count, shape.dp_size, dp_rank + 1);
  const std::int64_t begin = std::min(rank_end, rank_begin + microbatch * shape.local_batch_size);
  return {begin, std::min(rank_end, begin + shape.local_batch_size)};
}

}  // namespace tessera::data
