#pragma once

#include "tessera/config/reader.h"
#include "tessera/config/sections/data.h"
#include "tessera/config/sections/distributed.h"
#include "tessera/config/sections/model.h"
#include "tessera/config/sections/output.h"
#include "tessera/config/sections/training.h"

/// One reader per section of a recipe; each fills its struct and adds what it finds to the scope's findings. Internal to this layer.
namespace tessera::config {

// Plain sections are tables; the table is the documentation of the section.
Keys<StepScheduler> step_scheduler_keys();
Keys<LrScheduler> lr_scheduler_keys();
Keys<ClipGradNorm> clip_grad_norm_keys();
Keys<MoeMetrics> moe_metrics_keys();
Keys<DistEnv> dist_env_keys();
Keys<Checkpoint> checkpoint_keys();
Keys<Logging> logging_keys();
Keys<FreezeConfig> freeze_config_keys();
Keys<PackedSequence> packed_sequence_keys();

// `split` of a dataset: a name, or a name and a slice, whose samples are known when the data is; and Megatron's, how much of the files each gets.
Key<Dataset> split_key();
Key<Dataset> shares_key();

// Sections whose keys depend on a `_target_`, a strategy or a kind.
void read_step_scheduler(const Scope& scope, const Node& node, StepScheduler& section);
void read_lr_scheduler(const Scope& scope, const Node& node, LrScheduler& section);
void read_optimizer(const Scope& scope, const Node& node, Optimizer& section);
void read_loss(const Scope& scope, const Node& node, Loss& section);
void read_model(const Scope& scope, const Node& node, Model& section);
void read_tokenizer(const Scope& scope, const Node& node, Tokenizer& section);
void read_distributed(const Scope& scope, const Node& node, Distributed& section);
/// False when the dataset's kind is unknown or not one that Tessera describes; `section` is then unusable.
bool read_dataset(const Scope& scope, const Node& node, Dataset& section);
void read_dataloader(const Scope& scope, const Node& node, Dataloader& section);
void read_validation_dataloader(const Scope& scope, const Node& node, Dataloader& section);
void read_checkpoint(const Scope& scope, const Node& node, Checkpoint& section);
/// Says that adapters are not supported yet, and which keys of the section are unknown.
void check_peft(const Scope& scope, const Node& node);

}  // namespace tessera::config
