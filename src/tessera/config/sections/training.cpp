#include "tessera/config/sections/read.h"

#include "tessera/core/labels.h"

namespace tessera::config {

namespace {

/// Signals that Tessera always answers by finishing the step and saving.
Key<StepScheduler> preemption_signal() {
  return {"preemption_signal", [](const Scope& scope, const Node& node, StepScheduler&) {
            std::vector<std::string> names;
            if (is_null(node)) return scope.note("SIGTERM and SIGINT always save and stop");
            if (!read_value(scope, node, names)) return;
            for (const std::string& name : names) {
              if (name == "SIGTERM" || name == "SIGINT" || name == "15" || name == "2") continue;
              scope.unsupported(node, shown(scope, node), Support::NotSupported, "SIGTERM and SIGINT save and stop; other signals keep their meaning",
                                "use SIGTERM, or leave it out");
            }
          }};
}

}  // namespace

Keys<StepScheduler> step_scheduler_keys() {
  using S = StepScheduler;
  return {
      field("global_batch_size", &S::global_batch_size, at_least(1)),
      field("local_batch_size", &S::local_batch_size, at_least(1)),
      field("num_epochs", &S::num_epochs, at_least(1)),
      field("max_steps", &S::max_steps, at_least(1)),
      field("ckpt_every_steps", &S::ckpt_every_steps, at_least(1)),
      field("val_every_steps", &S::val_every_steps, at_least(1)),
      field("save_checkpoint_every_epoch", &S::save_checkpoint_every_epoch),
      field("log_remote_every_steps", &S::log_remote_every_steps, at_least(1)),
      inert<S>("loss_average_window_steps", Type::Int, "has no effect: the log has each step's own loss"),
      inert<S>("gc_every_steps", Type::Int, "has no effect: memory is freed as it falls out of use"),
      refused<S>("start_step", Type::Int, Support::NotSupported, "a run continues with checkpoint.restore_from"),
      refused<S>("start_epoch", Type::Int, Support::NotSupported, "a run continues with checkpoint.restore_from"),
      inert<S>("dp_size", Type::Int, "has no effect: distributed.dp_size counts"),
      preemption_signal(),
      target_key<S>(),
  };
}

void read_step_scheduler(const Scope& scope, const Node& node, StepScheduler& section) { read_section(scope, node, step_scheduler_keys(), section); }

Keys<LrScheduler> lr_scheduler_keys() {
  using S = LrScheduler;
  const Choices<DecayStyle> styles = {{"constant", DecayStyle::Constant},
                                      {"cosine", DecayStyle::Cosine},
                                      {"linear", DecayStyle::Linear},
                                      {"inverse-square-root", DecayStyle::InverseSquareRoot},
                                      {"WSD", DecayStyle::WSD}};
  const Choices<WsdDecayStyle> wsd_styles = {{"linear", WsdDecayStyle::Linear},
                                             {"cosine", WsdDecayStyle::Cosine},
                                             {"exponential", WsdDecayStyle::Exponential},
                                             {"minus_sqrt", WsdDecayStyle::MinusSqrt}};
  const Choices<WeightDecayStyle> decay_styles = {
      {"constant", WeightDecayStyle::Constant}, {"linear", WeightDecayStyle::Linear}, {"cosine", WeightDecayStyle::Cosine}};
  return {
      choice("lr_decay_style", &S::lr_decay_style, styles),
      field("lr_warmup_steps", &S::lr_warmup_steps, at_least(0)),
      field("lr_decay_steps", &S::lr_decay_steps, at_least(1)),
      field("init_lr", &S::init_lr, at_least(0)),
      field("max_lr", &S::max_lr, at_least(0)),
      field("min_lr", &S::min_lr, at_least(0)),
      field("start_wd", &S::start_wd, at_least(0)),
      field("end_wd", &S::end_wd, at_least(0)),
      field("wd_incr_steps", &S::wd_incr_steps, at_least(1)),
      choice("wd_incr_style", &S::wd_incr_style, decay_styles),
      field("wsd_decay_steps", &S::wsd_decay_steps, at_least(1)),
      choice("lr_wsd_decay_style", &S::lr_wsd_decay_style, wsd_styles),
      field("override_opt_param_scheduler", &S::override_opt_param_scheduler),
      field("use_checkpoint_opt_param_scheduler", &S::use_checkpoint_opt_param_scheduler),
      target_key<S>(),
  };
}

void read_lr_scheduler(const Scope& scope, const Node& node, LrScheduler& section) {
  read_target(scope, node, TargetKind::LrScheduler);
  read_section(scope, node, lr_scheduler_keys(), section);
  if (section.lr_decay_style == DecayStyle::WSD && (!section.wsd_decay_steps || !section.lr_wsd_decay_style)) {
    scope.mistake(node, "lr_decay_style WSD needs wsd_decay_steps and lr_wsd_decay_style",
                  "the rate is held, and falls over the last wsd_decay_steps", "add for example wsd_decay_steps: 100 and lr_wsd_decay_style: linear");
  }
  if (section.lr_warmup_steps && section.lr_decay_steps && *section.lr_warmup_steps >= *section.lr_decay_steps) {
    scope.mistake(node,
                  "lr_warmup_steps (" + std::to_string(*section.lr_warmup_steps) + ") is not below lr_decay_steps (" +
                      std::to_string(*section.lr_decay_steps) + ")",
                  "decay begins after warm-up", "lower lr_warmup_steps");
  }
  if (section.start_wd && section.end_wd && *section.end_wd < *section.start_wd) {
    scope.mistake(node, "end_wd is below start_wd", "weight decay may grow during training, not fall", "exchange them, or give both the same value");
  }
  // Where one of them is left out, the schedule compares it with the optimizer's.
  if (section.wd_incr_style == WeightDecayStyle::Constant && section.start_wd && section.end_wd && *section.start_wd != *section.end_wd) {
    scope.mistake(node, "start_wd and end_wd differ but wd_incr_style is constant", "a constant weight decay has one value",
                  "use wd_incr_style linear or cosine, or give both the same value");
  }
}

namespace {

/// torch.optim.Adam's switch between coupled and decoupled decay.
Key<Optimizer> decay_switch(std::string name) {
  return {std::move(name), [](const Scope& scope, const Node& node, Optimizer& section) {
            bool decoupled = false;
            if (is_null(node) || !read_value(scope, node, decoupled)) return;
            section.kind = decoupled ? OptimizerKind::AdamW : OptimizerKind::Adam;
          }};
}

Key<ParamGroupOverride> regular_expression(std::string name, std::string ParamGroupOverride::* member) {
  return {std::move(name), [member](const Scope& scope, const Node& node, ParamGroupOverride& group) {
            if (!is_null(node)) read_regular_expression(scope, node, group.*member);
          }};
}

Key<Optimizer> group_overrides() {
  return {"param_group_overrides", [](const Scope& scope, const Node& node, Optimizer& section) {
            if (is_null(node) || !check_type(scope, node, Type::List)) return;
            const Keys<ParamGroupOverride> keys = {regular_expression("pattern", &ParamGroupOverride::pattern),
                                                   field("lr_mult", &ParamGroupOverride::lr_mult, at_least(0)),
                                                   field("wd_mult", &ParamGroupOverride::wd_mult, at_least(0))};
            for (std::size_t i = 0; i < node.items.size(); ++i) {
              const Scope item = scope.child(std::to_string(i));
              ParamGroupOverride group;
              read_section(item, node.items[i], keys, group);
              const Node* pattern = node.items[i].find("pattern");
              if (!pattern || is_null(*pattern) || (pattern->is_scalar() && pattern->text.empty()))
                item.mistake(node.items[i], "has no pattern", "a group is chosen by a regular expression over parameter names",
                             "add for example pattern: norm");
              section.param_group_overrides.push_back(std::move(group));
            }
          }};
}

Key<Optimizer> betas() {
  return {"betas", [](const Scope& scope, const Node& node, Optimizer& section) {
            std::array<double, 2> read{};
            if (is_null(node) || !read_value(scope, node, read)) return;
            const bool valid = std::ranges::all_of(read, [](double beta) { return beta >= 0 && beta < 1; });
            if (!valid) return scope.mistake(node, "a beta is out of range", "each is at least 0 and less than 1", "use [0.9, 0.999]");
            section.betas = read;
          }};
}

Keys<Optimizer> common_optimizer_keys() {
  using S = Optimizer;
  return {
      field("lr", &S::lr, at_least(0)),
      betas(),
      field("eps", &S::eps, above(0)),
      field("weight_decay", &S::weight_decay, at_least(0)),
      field("decay_groups", &S::decay_groups),
      group_overrides(),
      target_key<S>(),
  };
}

Keys<Optimizer> torch_adam_keys() {
  using S = Optimizer;
  constexpr auto no = Support::NotSupported;
  return {
      refused<S>("amsgrad", Type::Bool, no, "only plain AdamW and Adam are implemented"),
      refused<S>("maximize", Type::Bool, no, "the loss is minimised"),
      refused<S>("differentiable", Type::Bool, no, "the optimizer's step is not differentiated"),
      decay_switch("decoupled_weight_decay"),
      // How torch steps; here the step is always fused.
      accepted<S>("foreach", Type::Bool),
      accepted<S>("fused", Type::Bool),
      accepted<S>("capturable", Type::Bool),
  };
}

/// Variants that keep states in fewer bits.
Keys<Optimizer> compressed_adam_keys(std::initializer_list<std::pair<std::string_view, Type>> names) {
  Keys<Optimizer> keys;
  for (const auto& [name, type] : names) keys.push_back(accepted<Optimizer>(std::string(name), type));
  return keys;
}

Keys<Optimizer> optimizer_keys(const Target& target) {
  if (target.native == "fused_adam") {
    return common_optimizer_keys() +
           compressed_adam_keys({{"master_weights", Type::Any},
                                 {"master_weight_dtype", Type::String},
                                 {"store_param_remainders", Type::Bool},
                                 {"exp_avg_dtype", Type::String},
                                 {"exp_avg_sq_dtype", Type::String},
                                 {"use_decoupled_grad", Type::Bool},
                                 {"set_grad_none", Type::Bool},
                                 {"capturable", Type::Bool}}) +
           Keys<Optimizer>{decay_switch("adam_w_mode"),
                           {"bias_correction",
                            [](const Scope& scope, const Node& node, Optimizer&) {
                              if (!check_type(scope, node, Type::Bool) || as_bool(node) != false) return;
                              scope.unsupported(node, shown(scope, node), Support::NotSupported, "Adam's moments are always corrected for their bias",
                                                "leave it out");
                            }},
                           refused<Optimizer>("amsgrad", Type::Bool, Support::NotSupported, "only plain AdamW and Adam are implemented")};
  }
  if (target.native == "flash_adamw") {
    return common_optimizer_keys() + compressed_adam_keys({{"master_weight_bits", Type::Int},
                                                           {"compress_state_dict", Type::Bool},
                                                           {"quantize", Type::Bool},
                                                           {"check_numerics", Type::Bool},
                                                           {"fused", Type::Bool}});
  }
  return common_optimizer_keys() + torch_adam_keys();
}

void set_target_defaults(const Node& node, const Target& target, Optimizer& section) {
  // AutoModel's own configurations of these optimizers begin all alike, whatever the classes that they build begin with.
  if (has_target(node) && node.find("_target_")->text.starts_with("nemo_automodel.")) {
    section.lr = 1e-4;
    section.weight_decay = 0.01;
    return;
  }
  // Coupled Adam and TransformerEngine's FusedAdam start without decay.
  section.weight_decay = section.kind == OptimizerKind::Adam || target.native == "fused_adam" ? 0.0 : 0.01;
}

}  // namespace

void read_optimizer(const Scope& scope, const Node& node, Optimizer& section) {
  if (is_null(node) || !check_type(scope, node, Type::Map)) return;
  const Target* target = read_target(scope, node, TargetKind::Optimizer, "adamw");
  if (!target || target->value < 0) return;
  section.kind = static_cast<OptimizerKind>(target->value);
  set_target_defaults(node, *target, section);
  read_section(scope, node, optimizer_keys(*target), section);
  if (target->native == "fused_adam" || target->native == "flash_adamw") {
    scope.note("runs as AdamW with fp32 master weights and fp32 moments; options for compressed states have no effect");
  }
}

namespace {

Key<Loss> summed_reduction() {
  return {"reduction", [](const Scope& scope, const Node& node, Loss&) {
            if (!check_type(scope, node, Type::String) || is_null(node) || node.text == "sum") return;
            scope.unsupported(node, shown(scope, node), Support::NotSupported,
                              "the loss is summed and divided by the number of valid labels of the whole step", "leave it out, or use sum");
          }};
}

Key<Loss> ignore_index() {
  return {"ignore_index", [](const Scope& scope, const Node& node, Loss&) {
            std::int64_t index = 0;
            if (is_null(node) || !read_value(scope, node, index) || index == kIgnoredLabel) return;
            scope.unsupported(node, shown(scope, node), Support::NotSupported, "positions without a label are -100 in every dataset here",
                              "leave it out");
          }};
}

Keys<Loss> loss_keys(LossKind kind) {
  Keys<Loss> keys = {ignore_index(), summed_reduction(), target_key<Loss>()};
  switch (kind) {
    case LossKind::MaskedCrossEntropy:
      keys.push_back(always<Loss>("fp32_upcast", "softmax and loss are always fp32"));
      break;
    case LossKind::ChunkedCrossEntropy:
      keys.push_back(inert<Loss>("chunk_len", Type::Int, "has no effect: how many tokens' logits are held at once is chosen here"));
      keys.push_back(accepted<Loss>("compile", Type::Bool));
      break;
    case LossKind::FusedLinearCrossEntropy:
      keys.push_back(field("logit_softcapping", &Loss::logit_softcapping, at_least(0)));
      break;
    case LossKind::TEParallelCrossEntropy:
      keys.push_back(accepted<Loss>("tp_group", Type::Any));
      break;
  }
  return keys;
}

}  // namespace

void read_loss(const Scope& scope, const Node& node, Loss& section) {
  if (is_null(node)) return;
  const Target* target = read_target(scope, node, TargetKind::Loss, "masked");
  if (!target || target->value < 0) return;
  section.kind = static_cast<LossKind>(target->value);
  if (!node.is_scalar()) read_section(scope, node, loss_keys(section.kind), section);
}

Keys<ClipGradNorm> clip_grad_norm_keys() {
  using S = ClipGradNorm;
  return {
      field("max_norm", &S::max_norm, above(0)),
      {"norm_type",
       [](const Scope& scope, const Node& node, S&) {
         const bool largest = node.is_scalar() && node.text == "inf";  // a word in YAML, torch's name of the norm
         if (!largest && (!check_type(scope, node, Type::Number) || is_null(node) || as_double(node) == 2.0)) return;
         scope.unsupported(node, shown(scope, node), Support::NotSupported, "gradients are clipped by their 2-norm", "use 2.0, or leave it out");
       }},
      accepted<S>("foreach", Type::Bool),
  };
}

Keys<MoeMetrics> moe_metrics_keys() {
  using S = MoeMetrics;
  return {
      field("enabled", &S::enabled),
      choice("mode", &S::detailed, Choices<bool>{{"brief", false}, {"detailed", true}}),
      field("detailed_every_steps", &S::detailed_every_steps, at_least(1)),
      field("top_k_experts", &S::top_k_experts, at_least(0)),
  };
}

}  // namespace tessera::config
