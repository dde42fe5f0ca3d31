#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/core/random.h"

namespace tessera::data {

/// The order of one epoch: a bijection of [0, num_samples) that is a pure function of (seed, epoch). It is computed, not stored
/// (a Feistel network on a grid of about √n × √n, cf. Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002), so any position
/// of any epoch is reached at once and a billion samples cost no memory. Without `shuffle` it is the identity.
class EpochOrder {
 public:
  EpochOrder(std::int64_t num_samples, bool shuffle, std::uint64_t seed, std::int64_t epoch);
  /// Which sample stands at this position of the epoch.
  std::int64_t operator[](std::int64_t position) const;
  std::int64_t num_samples() const { return num_samples_; }

 private:
  std::int64_t num_samples_;
  bool shuffle_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  CounterRandom random_;
};

/// Samples of like length stand together (group_by_length): all samples by descending length are cut into groups of one optimizer step, and an epoch
/// shuffles the groups; a last group that is not full stays last. Nothing depends on the data-parallel size.
struct LengthGroups {
  std::vector<std::int64_t> by_length;  ///< sample indices, longest first; equal lengths in the dataset's order
  std::int64_t group_size = 1;
};
LengthGroups group_by_length(std::span<const std::int32_t> lengths, std::int64_t group_size);

/// Which sample stands where in an epoch: EpochOrder of the samples, or of their groups.
class SampleOrder {
 public:
  /// `groups` may be null.
  SampleOrder(std::shared_ptr<const LengthGroups> groups, std::int64_t num_samples, bool shuffle, std::uint64_t seed, std::int64_t epoch);
  std::int64_t operator[](std::int64_t position) const;

 private:
  std::shared_ptr<const LengthGroups> groups_;
  EpochOrder order_;
};

/// How the samples of a step are shared out. The samples of one optimizer step stand next to each other in the epoch's order, so what a step sees
/// does not depend on `dp_size`; each data-parallel rank takes one contiguous part of them, in rank order, and cuts it into microbatches.
struct StepShape {
  std::int64_t num_samples = 0;  ///< of the dataset
  std::int64_t global_batch_size = 1;
  std::int64_t local_batch_size = 1;
  std::int64_t dp_size = 1;
  bool drop_last = false;  ///< leave out the short step at the end of an epoch
};

/// Where training stands in the data: the same at every rank and for every data-parallel size.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;  ///< samples of this epoch already handed out, all ranks together
  bool operator==(const DataPosition&) const = default;
};

/// One optimizer step: positions [first, first + count) of an epoch's order.
struct StepPlan {
  std::int64_t epoch = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t num_microbatches = 0;  ///< the same at every rank
  bool ends_epoch = false;
  DataPosition after;  ///< where the next step begins
};

/// Positions [begin, end) of the epoch's order; empty for a rank that has none left in a short step.
struct PositionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Throws UserError when a size is not positive, when local_batch_size × dp_size does not divide global_batch_size, or when `drop_last` would leave
/// nothing.
void check_step_shape(const StepShape& shape);
std::int64_t steps_per_epoch(const StepShape& shape);
/// The step that begins at `position`. Leftover samples at the end of an epoch make a short step, spread over the ranks as evenly as possible.
StepPlan plan_step(const StepShape& shape, const DataPosition& position);
/// What rank `dp_rank` runs as its microbatch number `microbatch`: at most local_batch_size positions.
PositionRange microbatch_positions(const StepShape& shape, const StepPlan& plan, std::int64_t dp_rank, std::int64_t microbatch);

}  // namespace tessera::data
