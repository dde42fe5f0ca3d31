#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/logging.h"
#include "tessera/formats/shard_size.h"

namespace tessera::config {

enum class SaveConsolidated : std::uint8_t { Off, Final, Every };
/// What is checked of a checkpoint's files before they are believed.
enum class CheckpointVerify : std::uint8_t {
  Off,    ///< only what reading them checks
  Sizes,  ///< every file exists and has its size
  Full,   ///< and its hash
};

/// `checkpoint`.
struct Checkpoint {
  bool enabled = true;
  std::string checkpoint_dir = "checkpoints/";
  SaveConsolidated save_consolidated = SaveConsolidated::Final;
  std::uint64_t max_shard_size = formats::kDefaultMaxShardSize;  ///< bytes of a consolidated file
  bool is_async = false;                                         ///< training waits only for the copy to staging memory
  std::optional<std::int64_t> max_recent_checkpoints;            ///< absent: keep all
  std::string best_metric_key = "default";                       ///< the validation dataset that LOWEST_VAL follows
  std::string restore_from;  ///< LATEST, LOWEST_VAL, a name in checkpoint_dir, or a path; empty: LATEST if there is one
  bool restore_optimizer = true;
  CheckpointVerify verify = CheckpointVerify::Sizes;
};

/// `logging`. The level `warning` leaves out notes and the lines of steps, `error` warnings too.
struct Logging {
  log::Level level = log::Level::Info;
  std::string directory;  ///< training.jsonl and the like; empty: checkpoint_dir
  bool tensorboard = true;
};

/// `freeze_config`.
struct FreezeConfig {
  bool freeze_embeddings = false;
  bool freeze_language_model = false;
  std::vector<std::string> patterns;  ///< Tessera's own: regular expressions over parameter names
};

}  // namespace tessera::config
