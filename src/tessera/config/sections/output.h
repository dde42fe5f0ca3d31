#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::config {

enum class SaveConsolidated : std::uint8_t { Off, Final, Every };
enum class CheckpointVerify : std::uint8_t { Full, Sizes, Off };

/// `checkpoint`.
struct Checkpoint {
  bool enabled = true;
  std::string checkpoint_dir = "checkpoints/";
  SaveConsolidated save_consolidated = SaveConsolidated::Final;
  std::int64_t max_shard_size_bytes = 5'000'000'000;   ///< of a consolidated file
  bool is_async = false;                               ///< training waits only for the copy to staging memory
  std::optional<std::int64_t> max_recent_checkpoints;  ///< absent: keep all
  std::string best_metric_key = "default";             ///< the validation dataset that LOWEST_VAL follows
  std::string restore_from;                            ///< LATEST, LOWEST_VAL, a name in checkpoint_dir, or a path; empty: LATEST if there is one
  bool restore_optimizer = true;
  CheckpointVerify verify = CheckpointVerify::Sizes;
};

/// From where on messages are shown: `warning` leaves out notes and the lines of steps, `error` warnings too.
enum class LogLevel : std::uint8_t { Info, Warning, Error };

/// `logging`.
struct Logging {
  LogLevel level = LogLevel::Info;
  std::string directory;  ///< training.jsonl and the like; empty: checkpoint_dir
  bool tensorboard = true;
};

/// `freeze_config`.
struct FreezeConfig {
  bool freeze_embeddings = false;
  bool freeze_language_model = false;
  std::vector<std::string> patterns;  ///< Tessera's own: regular expressions over parameter names
};

/// `peft` (LoRA); a recipe that has it carries an unsupported problem until adapters exist.
struct Peft {
  std::vector<std::string> target_modules;
  std::vector<std::string> exclude_modules;
  bool match_all_linear = false;
  std::int64_t dim = 8;
  double alpha = 32;
  double dropout = 0.0;
  bool dropout_before = false;  ///< dropout_position: pre
  bool use_dora = false;
  std::string lora_A_init = "xavier";
  bool moe_rank_scaling = false;
};

}  // namespace tessera::config
