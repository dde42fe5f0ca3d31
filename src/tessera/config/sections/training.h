#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::config {

inline constexpr std::int64_t kDefaultNumEpochs = 10;

/// `step_scheduler`. Counts of steps are optimizer steps; absent means as the comment says.
struct StepScheduler {
  std::int64_t global_batch_size = 32;                         ///< samples per optimizer step over all ranks
  std::int64_t local_batch_size = 1;                           ///< samples per microbatch and rank
  std::optional<std::int64_t> num_epochs = kDefaultNumEpochs;  ///< null: as many as max_steps takes, or the default without max_steps
  std::optional<std::int64_t> max_steps;                       ///< absent: num_epochs decides
  std::optional<std::int64_t> ckpt_every_steps = 100;          ///< absent (null): once per epoch
  std::optional<std::int64_t> val_every_steps;                 ///< absent: no validation by steps
  bool save_checkpoint_every_epoch = true;
  std::int64_t log_remote_every_steps = 1;  ///< TensorBoard
};

enum class OptimizerKind : std::uint8_t {
  AdamW,  ///< decoupled weight decay (Loshchilov and Hutter 2019), as torch.optim.AdamW
  Adam,   ///< weight decay added to the gradient (L2), as torch.optim.Adam
};

/// Multipliers for the parameters whose name the regular expression finds (first match wins).
struct ParamGroupOverride {
  std::string pattern;
  double lr_mult = 1.0;
  double wd_mult = 1.0;
};

/// `optimizer`. Defaults of lr and weight_decay are those of the target (torch's: 1e-3; 0.01 for AdamW, 0 for Adam; AutoModel's own: 1e-4; 0.01).
struct Optimizer {
  OptimizerKind kind = OptimizerKind::AdamW;
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  /// Tessera's own key: true leaves biases and one-dimensional parameters (norms) without decay.
  bool decay_groups = false;
  std::vector<ParamGroupOverride> param_group_overrides;
};

enum class DecayStyle : std::uint8_t { Constant, Cosine, Linear, InverseSquareRoot, WSD };
enum class WsdDecayStyle : std::uint8_t { Linear, Cosine, Exponential, MinusSqrt };
enum class WeightDecayStyle : std::uint8_t { Constant, Linear, Cosine };

/// `lr_scheduler`. Absent values are derived when the number of steps is known: init_lr = 0.1·lr, max_lr = lr, min_lr = 0.01·lr,
/// lr_warmup_steps = min(1000, total/10), lr_decay_steps = wd_incr_steps = total, start_wd = end_wd = weight_decay.
struct LrScheduler {
  DecayStyle lr_decay_style = DecayStyle::Cosine;
  std::optional<std::int64_t> lr_warmup_steps;
  std::optional<std::int64_t> lr_decay_steps;
  std::optional<double> init_lr;
  std::optional<double> max_lr;
  std::optional<double> min_lr;
  std::optional<double> start_wd;
  std::optional<double> end_wd;
  std::optional<std::int64_t> wd_incr_steps;
  WeightDecayStyle wd_incr_style = WeightDecayStyle::Constant;
  std::optional<std::int64_t> wsd_decay_steps;  ///< given when lr_decay_style is WSD
  std::optional<WsdDecayStyle> lr_wsd_decay_style;
  bool override_opt_param_scheduler = false;       ///< on resume: these values replace the checkpoint's
  bool use_checkpoint_opt_param_scheduler = true;  ///< on resume: the checkpoint's values are taken
};

/// Which loss the recipe names. All of them are the cross-entropy summed over valid labels and divided by their global number, computed by the one
/// operator that holds the logits of a chunk of tokens at a time; the kind only says which keys the section may have.
enum class LossKind : std::uint8_t { MaskedCrossEntropy, ChunkedCrossEntropy, FusedLinearCrossEntropy, TEParallelCrossEntropy };

/// `loss_fn`.
struct Loss {
  LossKind kind = LossKind::MaskedCrossEntropy;
  double logit_softcapping = 0.0;  ///< 0: none, or the model's own
};

/// `clip_grad_norm`. Absent max_norm (null): gradients are not clipped, the norm is still reported.
struct ClipGradNorm {
  std::optional<double> max_norm = 1.0;
};

/// `moe_metrics`.
struct MoeMetrics {
  bool enabled = false;
  bool detailed = false;  ///< mode: brief | detailed
  std::optional<std::int64_t> detailed_every_steps;
  std::int64_t top_k_experts = 0;
};

}  // namespace tessera::config
