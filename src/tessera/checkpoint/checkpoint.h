#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/checkpoint/signature.h"
#include "tessera/checkpoint/staging.h"
#include "tessera/checkpoint/verify.h"
#include "tessera/comm/communicator.h"
#include "tessera/core/file.h"
#include "tessera/core/json.h"
#include "tessera/formats/shard_size.h"
#include "tessera/model/parameter_store.h"
#include "tessera/optim/optimizer.h"

/// Saving and restoring a training run. docs/checkpoints.md shows the files of a checkpoint and says what each holds.
namespace tessera::checkpoint {

/// What the training loop wants back on resume. The Json values are its own business.
struct TrainingState {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< completed optimizer steps
  Json loader;
  Json scheduler;
  Json rng;
  Json losses;                                         ///< {"train_loss": …, "val_loss": …}
  std::optional<double> validation_metric;             ///< of what is saved; what LOWEST_VAL compares (best_metric_key): lower is better
  std::optional<BestValidation> best_validation = {};  ///< of the run's checkpoints up to this one, wherever they lie
};

/// What makes model/ and model/consolidated/ a model directory. In memory: where the model came from may be gone when it is saved.
struct ModelFiles {
  std::string config_json;
  std::map<std::string, std::string> others;  ///< by name: generation_config.json and tokenizer files
};
/// Reads them from the directory of a model; "torch_dtype" (or "dtype") of config.json becomes `dtype`. UserError without a config.json.
ModelFiles model_files(const std::filesystem::path& model_directory, DType dtype);
/// Files with their contents, by name.
std::map<std::string, std::string> read_files(const std::vector<std::filesystem::path>& files);

/// Everything one save writes.
struct SaveRequest {
  const model::ParameterStore* store = nullptr;
  const optim::Optimizer* optimizer = nullptr;
  ModelSignature signature;
  const ModelFiles* model_files = nullptr;  ///< must outlive the save, in the background too, like the store and the optimizer
  TrainingState state;
  std::string config_yaml;         ///< the resolved recipe
  Json versions = Json::object();  ///< {"tessera": "0.1.0", "torch": …}
  Json layout = Json::object();    ///< how the run is split, for readers: {"world_size": 4, …}
  bool consolidate = false;        ///< write model/consolidated/ too
  bool saves_masters = false;      ///< model/ holds the masters instead of what is computed with
};

struct DirectoryOptions {
  std::uint64_t max_shard_size = formats::kDefaultMaxShardSize;  ///< bytes of a consolidated file
  std::optional<std::int64_t> max_recent_checkpoints = {};       ///< absent: keep all
  /// How long a rank waits to see what rank 0 wrote there: network file systems remember for up to half a minute that there was nothing.
  std::chrono::milliseconds visible_within{40'000};
};

/// The checkpoint_dir of one run, which all its ranks share: created if need be, locked, cleaned of what an interrupted save left, and its links
/// moved to where that save would have moved them. Rank 0 of the group keeps the directory; every rank writes the boxes it owns. All ranks make the
/// same calls; where one fails, all throw.
class CheckpointDirectory {
 public:
  /// `operations` and the group must outlive it, and nobody else may use them while it lives: a save in the background does. UserError when the
  /// directory cannot be created or written, another run holds it, something stands where a link goes, or a rank sees another directory.
  CheckpointDirectory(FileOperations& operations, std::filesystem::path path, DirectoryOptions options, comm::Communicator& group);

  const std::filesystem::path& path() const { return path_; }
  /// See refuse_later_checkpoints (directory.h).
  void refuse_later_checkpoints(std::int64_t step) const;

  /// Writes epoch_E_step_S aside, syncs it, renames it into place; then points LATEST, and LOWEST_VAL when the metric is the lowest so far, at it and
  /// removes what max_recent_checkpoints no longer keeps. Failure (disk full, …) leaves the earlier checkpoints and links as they were; UserError
  /// when the name is taken. Returns the checkpoint's path. Waits first for a save in flight.
  std::filesystem::path save(const SaveRequest& request);

  /// The same in the background: returns when the state has been copied to staging memory (as much again as this rank saves), and training may go
  /// on. One save is in flight at a time: a second call waits for the first.
  void begin_save(const SaveRequest& request);
  /// Whether this rank has done its part of the save in flight, well or not; false when there is none. Ranks differ: agree before finish_save.
  bool save_has_ended() const;
  /// Waits for the save in flight and returns its path, or throws what it failed with; nothing when there is none.
  std::optional<std::filesystem::path> finish_save();

 private:
  /// What this rank writes: boxes in the store's and the optimizer's memory, or in a copy of it.
  struct OwnState {
    std::vector<TensorBox> model, optim;
  };
  static OwnState own_state(const SaveRequest& request);
  bool keeps_directory() const { return group_.rank() == 0; }
  /// Runs `work` at rank 0 while the others wait for it.
  void at_keeper(const std::function<void()>& work) const;
  std::filesystem::path write(const SaveRequest& request, const OwnState& own, std::int64_t optimizer_steps);
  RankRecords write_own(const std::filesystem::path& aside, const OwnState& own);
  void consolidate(const std::filesystem::path& aside, Manifest& manifest);
  void complete(const std::filesystem::path& aside, const SaveRequest& request, Manifest manifest);
  void remove_old();

  FileOperations& operations_;
  std::filesystem::path path_;
  DirectoryOptions options_;
  comm::Communicator& group_;
  std::unique_ptr<DirectoryLock> lock_;  ///< at rank 0
  Staging staging_;
  std::future<std::filesystem::path> in_flight_;  ///< last: destroyed first, and waits then
};

struct RestoreOptions {
  Verify verify = Verify::Sizes;
  /// false: weights only, read from model/ (rounded to its dtype); optim/ need not be there.
  bool restore_optimizer = true;
  /// Ranks that restore together check the files together: this one does its share, by bytes.
  int rank = 0;
  int num_ranks = 1;
};

/// What `restore` returns. UserError for files that are missing or damaged.
TrainingState read_training_state(const std::filesystem::path& checkpoint, const Manifest& manifest);

/// Reads a checkpoint (see resolve_restore_from) into the store and the optimizer: bitwise what was saved, whatever layout saved it. Only the bytes
/// of what the store holds are read. `optimizer` may be null when it is not to be restored. Before anything is overwritten: UserError for another
/// model (both signatures shown), for files that are missing, truncated or damaged, and for every tensor that is missing, surplus or has another
/// shape.
TrainingState restore(const std::filesystem::path& checkpoint, const ModelSignature& signature, model::ParameterStore& store,
                      optim::Optimizer* optimizer, const RestoreOptions& options);

}  // namespace tessera::checkpoint
