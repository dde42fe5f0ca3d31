#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/data/batch.h"
#include "tessera/data/collate.h"
#include "tessera/data/dataset/dataset.h"
#include "tessera/data/sampler.h"

namespace tessera::data {

struct LoaderOptions {
  std::int64_t global_batch_size = 1;
  std::int64_t local_batch_size = 1;
  std::int64_t dp_rank = 0;
  std::int64_t dp_size = 1;
  std::uint64_t seed = 42;
  bool shuffle = true;
  bool drop_last = false;
  /// Steps of samples of like length (`LengthGroups`); construction then makes every sample once to learn its length.
  bool group_by_length = false;
  CollateOptions collate = {};
  /// Threads that tokenise and collate ahead of training. What `next` returns does not depend on it.
  int num_workers = 1;
  /// Optimizer steps prepared ahead of `next`, at most: bounds the memory.
  std::int64_t steps_ahead = 2;
  /// What is said and saved of the dataset's description: with a recipe's placeholders instead of their values, for example. As it is when empty.
  std::function<std::string(std::string)> redact = {};
};

/// What one data-parallel rank runs in one optimizer step.
struct StepBatches {
  std::vector<Batch> microbatches;  ///< the same count at every rank; a rank without samples left gets fillers
  std::int64_t epoch = 0;
  std::int64_t samples = 0;  ///< over all ranks
  bool ends_epoch = false;
};

/// Hands out the microbatches of one step after another, epoch after epoch, without end: the caller decides how many epochs.
/// Background threads work ahead; an error in one (bad data) is thrown by the `next` that would have returned that data.
/// The destructor stops the threads. Not thread-safe itself.
class Loader {
 public:
  /// Throws UserError when the dataset is empty or the batch sizes do not fit together.
  Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, DataPosition start = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Valid until the next call, which makes new batches in the memory of these.
  const StepBatches& next();
  /// Where the next call of `next` begins: what a checkpoint keeps.
  DataPosition position() const;
  /// Continues from there, whatever the data-parallel size of the run that saved it. `restore({})` begins again (validation).
  void restore(DataPosition position);
  std::int64_t steps_per_epoch() const;
  const Dataset& dataset() const;
  /// The dataset's, redacted.
  std::string description() const;
  const LoaderOptions& options() const;
  /// Tells datasets of equal size apart, whatever their place on disk. Made of a few samples when first asked.
  const std::string& label_hash();

 private:
  class Pipeline;
  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::shared_ptr<const LengthGroups> groups_;
  DataPosition position_;
  std::unique_ptr<Pipeline> pipeline_;
  std::string label_hash_;
};

}  // namespace tessera::data
