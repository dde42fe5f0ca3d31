#include "tessera/config/parallelism.h"
#include "tessera/config/pipeline_schedule.h"
#include "tessera/config/sections/read.h"

namespace tessera::config {

namespace {

const Choices<Strategy>& strategies() {
  static const Choices<Strategy> choices = {
      {"fsdp2", Strategy::Fsdp2}, {"megatron_fsdp", Strategy::MegatronFsdp}, {"mfsdp", Strategy::MegatronFsdp}, {"ddp", Strategy::Ddp}};
  return choices;
}

/// A key of the strategy's own options, or of the sizes, as a key of the section.
template <class Options>
Key<Distributed> in(Options Distributed::* options, Key<Options> key) {
  return {key.name, [=](const Scope& scope, const Node& node, Distributed& section) { key.read(scope, node, section.*options); }};
}

/// The size of an axis; null is 1.
template <class T>
Key<Distributed> axis(std::string name, T ParallelismSizes::* member) {
  return in(&Distributed::sizes, field(std::move(name), member, within(1, kMostRanksAlongAnAxis)));
}

/// Everything AutoModel takes for false, full or selective.
Key<Distributed> activation_checkpointing() {
  using A = ActivationCheckpointing;
  return {"activation_checkpointing", [](const Scope& scope, const Node& node, Distributed& section) {
            static const Choices<A> choices = {{"false", A::None},    {"true", A::Full},   {"full", A::Full}, {"selective", A::Selective},
                                               {"off", A::None},      {"on", A::Full},     {"no", A::None},   {"yes", A::Full},
                                               {"disabled", A::None}, {"enabled", A::Full}};
            if (is_null(node)) return;
            if (const auto value = read_choice(scope, node, choices)) section.activation_checkpointing = *value;
          }};
}

Keys<MixedPrecisionPolicy> policy_keys() {
  using P = MixedPrecisionPolicy;
  return {{"param_dtype",
           [](const Scope& scope, const Node& node, P& policy) {
             DType dtype{};
             if (!is_null(node) && read_compute_dtype(scope, node, dtype)) policy.param_dtype = dtype;
           }},
          field("reduce_dtype", &P::reduce_dtype),
          target_key<P>(),
          {"output_dtype",
           [](const Scope& scope, const Node& node, P&) {
             DType dtype{};
             if (is_null(node) || !read_value(scope, node, dtype) || dtype == DType::F32) return;
             scope.note("has no effect: logits and the loss are float32");
           }},
          // Inputs are token numbers.
          accepted<P>("cast_forward_inputs", Type::Bool)};
}

template <class Section>
Key<Section> mp_policy(std::optional<MixedPrecisionPolicy> Section::* member) {
  return {"mp_policy", [member](const Scope& scope, const Node& node, Section& section) {
            if (is_null(node) || !check_type(scope, node, Type::Map)) return;
            read_target(scope, node, TargetKind::MixedPrecisionPolicy);
            section.*member = MixedPrecisionPolicy{};
            read_section(scope, node, policy_keys(), *(section.*member));
          }};
}

Keys<Pipeline> pipeline_keys() {
  using P = Pipeline;
  return {
      choice("pp_schedule", &P::pp_schedule, pipeline_schedule_names()),
      field("pp_schedule_csv", &P::pp_schedule_csv),
      field("pp_microbatch_size", &P::pp_microbatch_size, at_least(1)),
      field("layers_per_stage", &P::layers_per_stage, at_least(1)),
      choice("round_virtual_stages_to_pp_multiple", &P::round_virtual_stages_to_pp_multiple,
             Choices<StageRounding>{{"up", StageRounding::Up}, {"down", StageRounding::Down}}),
      field("module_fqns_per_model_part", &P::module_fqns_per_model_part),
      field("scale_grads_in_schedule", &P::scale_grads_in_schedule),
      field("dtype", &P::dtype),
      accepted<P>("pp_batch_size", Type::Int),
      accepted<P>("pp_seq_len", Type::Int),
      // How upstream rewrites Hugging Face modules for a pipeline; there is nothing to rewrite here.
      accepted<P>("patch_inner_model", Type::Bool),
      accepted<P>("patch_causal_lm_model", Type::Bool),
      accepted<P>("patch_stage_backward_maybe_with_nosync", Type::Bool),
  };
}

Keys<MoeParallel> moe_keys() {
  using M = MoeParallel;
  return {field("ignore_router_for_ac", &M::ignore_router_for_ac), field("reshard_after_forward", &M::reshard_after_forward),
          field("wrap_outer_model", &M::wrap_outer_model), field("lm_head_precision", &M::lm_head_precision), mp_policy(&M::mp_policy)};
}

Keys<Distributed> common_keys() {
  return {
      {"strategy", [](const Scope&, const Node&, Distributed&) {}},
      axis("dp_size", &ParallelismSizes::dp_size),
      axis("dp_replicate_size", &ParallelismSizes::dp_replicate_size),
      axis("tp_size", &ParallelismSizes::tp_size),
      axis("pp_size", &ParallelismSizes::pp_size),
      axis("cp_size", &ParallelismSizes::cp_size),
      axis("ep_size", &ParallelismSizes::ep_size),
      field("sequence_parallel", &Distributed::sequence_parallel),
      field("tp_plan", &Distributed::tp_plan),
      activation_checkpointing(),
      field("offload_activations", &Distributed::offload_activations),
      choice("cp_attention", &Distributed::cp_attention,
             Choices<CpAttention>{{"ring", CpAttention::Ring}, {"allgather", CpAttention::AllGather}, {"all_to_all", CpAttention::AllToAll}}),
      section("pipeline", &Distributed::pipeline, pipeline_keys()),
      section("moe", &Distributed::moe, moe_keys()),
      target_key<Distributed>(),
      accepted<Distributed>("_recursive_", Type::Bool),
      accepted<Distributed>("_convert_", Type::Any),
  };
}

Key<Distributed> scope_of_checkpointing() {
  return {"activation_checkpointing_scope", [](const Scope& scope, const Node& node, Distributed&) {
            std::vector<std::string> names;
            if (is_null(node) || !read_value(scope, node, names)) return;
            static const Choices<bool> choices = {{"all", true},     {"language", true},    {"default", true}, {"auto", true},
                                                  {"vision", false}, {"multimodal", false}, {"audio", false}};
            const Node* items = node.is_sequence() ? node.items.data() : &node;
            for (std::size_t i = 0; i < names.size(); ++i) {
              const auto text_blocks = read_choice(scope, items[i], choices);
              if (text_blocks && !*text_blocks)
                scope.unsupported(items[i], shown(scope, items[i]), Support::NotSupported, "there are only text blocks", "use all, or leave it out");
            }
          }};
}

Key<Distributed> offload_policy() {
  return {"offload_policy", [](const Scope& scope, const Node& node, Distributed& section) {
            if (is_null(node) || !check_type(scope, node, Type::Map)) return;
            const Keys<Fsdp2Options> keys = {accepted<Fsdp2Options>("pin_memory", Type::Bool), target_key<Fsdp2Options>()};
            const Target* target = read_target(scope, node, TargetKind::OffloadPolicy);
            read_section(scope, node, keys, section.fsdp2);
            const bool moves = !has_target(node) || (target && node.find("_target_")->text != "torch.distributed.fsdp.OffloadPolicy");
            if (moves) scope.note("has no effect: weights, gradients and optimizer state are always kept in host memory");
          }};
}

Keys<Distributed> fsdp2_keys() {
  using F = Fsdp2Options;
  const auto own = [](Key<F> key) { return in(&Distributed::fsdp2, std::move(key)); };
  return {
      field("enable_async_tensor_parallel", &Distributed::enable_async_tensor_parallel),
      own(mp_policy(&F::mp_policy)),
      offload_policy(),
      own(field("autocast_dtype", &F::autocast_dtype)),
      own(field("defer_fsdp_grad_sync", &F::defer_fsdp_grad_sync)),
      own(field("reshard_after_forward", &F::reshard_after_forward)),
      own(field("enable_fsdp2_prefetch", &F::enable_fsdp2_prefetch)),
      own(field("fsdp2_forward_prefetch_depth", &F::forward_prefetch_depth, at_least(1))),
      own(field("fsdp2_backward_prefetch_depth", &F::backward_prefetch_depth, at_least(1))),
      scope_of_checkpointing(),
      accepted<Distributed>("patch_is_packed_sequence", Type::Bool),
      inert<Distributed>("enable_compile", Type::Bool, "has no effect: nothing is compiled at run time"),
      refused<Distributed>("multimodal", Type::Any, Support::NotSupported, "Tessera trains text models; images and sound are not read"),
  };
}

Keys<Distributed> megatron_fsdp_keys() {
  using M = MegatronFsdpOptions;
  const auto own = [](Key<M> key) { return in(&Distributed::megatron_fsdp, std::move(key)); };
  return {
      own(field("zero_dp_strategy", &M::zero_dp_strategy, within(0, 3))),
      own(field("overlap_grad_reduce", &M::overlap_grad_reduce)),
      own(field("overlap_param_gather", &M::overlap_param_gather)),
      own(field("grad_reduce_in_fp32", &M::grad_reduce_in_fp32)),
      inert<Distributed>("average_in_collective", Type::Bool,
                         "has no effect: gradients are sums of losses that are divided by the step's labels already"),
      inert<Distributed>("disable_bucketing", Type::Bool, "has no effect: a unit is what is gathered and reduced at once"),
      inert<Distributed>("fsdp_double_buffer", Type::Bool, "has no effect: the next unit is gathered while one is in use anyway"),
      inert<Distributed>("megatron_fsdp_unit_modules", Type::Any, "has no effect: the units are the embedding, each block and the head"),
      always<Distributed>("preserve_fp32_weights", "master weights are always fp32"),
      always<Distributed>("check_for_nan_in_grad", "gradients are always checked"),
      always<Distributed>("report_nan_in_param_grad", "the parameter is always named"),
      always<Distributed>("calculate_per_token_loss", "the loss is always divided by the number of labels of the whole step"),
      inert<Distributed>("nccl_ub", Type::Bool, "has no effect: communication buffers are not registered with NCCL"),
      inert<Distributed>("keep_fp8_transpose_cache", Type::Bool, "has no effect: nothing is kept in FP8"),
      inert<Distributed>("init_fsdp_with_meta_device", Type::Bool, "has no effect: every rank only ever makes its own share"),
  };
}

Keys<Distributed> ddp_keys() {
  return {
      inert<Distributed>("bucket_cap_mb", Type::Number, "has no effect: a unit is what is reduced at once"),
      // There are no buffers, unused parameters have the gradient zero, and gradients lie in flat buffers, whatever these say.
      accepted<Distributed>("broadcast_buffers", Type::Bool),
      accepted<Distributed>("find_unused_parameters", Type::Bool),
      accepted<Distributed>("static_graph", Type::Bool),
      accepted<Distributed>("gradient_as_bucket_view", Type::Bool),
      in(&Distributed::fsdp2, field("autocast_dtype", &Fsdp2Options::autocast_dtype)),
      scope_of_checkpointing(),
  };
}

Keys<Distributed> strategy_keys(Strategy strategy) {
  switch (strategy) {
    case Strategy::Fsdp2:
      return fsdp2_keys();
    case Strategy::MegatronFsdp:
      return megatron_fsdp_keys();
    case Strategy::Ddp:
      return ddp_keys();
  }
  return {};
}

std::string_view name_of(Strategy strategy) {
  return std::ranges::find(strategies(), strategy, &std::pair<std::string_view, Strategy>::second)->first;
}

bool has_key(const Keys<Distributed>& keys, const std::string& name) { return std::ranges::find(keys, name, &Key<Distributed>::name) != keys.end(); }

/// The strategy other than `own` that has the key.
std::optional<Strategy> other_strategy_with(const std::string& key, Strategy own) {
  for (const Strategy other : {Strategy::Fsdp2, Strategy::MegatronFsdp, Strategy::Ddp})
    if (other != own && has_key(strategy_keys(other), key)) return other;
  return std::nullopt;
}

/// The section without the keys of other strategies, which are mistakes but not unknown.
Node without_foreign_keys(const Scope& scope, const Node& node, const Keys<Distributed>& known, Strategy own) {
  Node rest = node;
  std::erase_if(rest.entries, [&](const Entry& entry) {
    const auto other = has_key(known, entry.key) ? std::nullopt : other_strategy_with(entry.key, own);
    if (!other) return false;
    ++scope.findings.num_unknown_keys;
    scope.child(entry.key).mistake(entry.value, "is not a key of strategy " + std::string(name_of(own)),
                                   "it belongs to strategy " + std::string(name_of(*other)),
                                   "leave it out, or use strategy " + std::string(name_of(*other)));
    return true;
  });
  return rest;
}

bool read_strategy(const Scope& scope, const Node& node, Distributed& section) {
  if (const Node* name = node.find("strategy"); name && !is_null(*name)) {
    const auto strategy = read_choice(scope.child("strategy"), *name, strategies());
    if (strategy) section.strategy = *strategy;
    return strategy.has_value();
  }
  if (!has_target(node)) return true;
  // Older recipes name the strategy by its manager class.
  const Target* target = read_target(scope, node, TargetKind::Distributed);
  if (target && target->support == Support::Supported) section.strategy = static_cast<Strategy>(target->value);
  return target != nullptr;
}

void note_sections_without_ranks(const Scope& scope, const Distributed& section) {
  if (section.sizes.pp_size == 1 && section.pipeline) scope.child("pipeline").note("ignored while pp_size is 1");
  if (section.sizes.ep_size == 1 && section.moe) scope.child("moe").note("ignored while ep_size is 1");
  if (section.sizes.tp_size == 1 && section.sequence_parallel) scope.child("sequence_parallel").note("ignored while tp_size is 1");
  if (section.sizes.cp_size == 1 && section.cp_attention != CpAttention::Ring) scope.child("cp_attention").note("ignored while cp_size is 1");
  if (section.sizes.ep_size > 1 && section.moe && !section.moe->wrap_outer_model)
    scope.child("moe")
        .child("wrap_outer_model")
        .note("has no effect: the embedding, the final norm and the head are units of their own, always sharded");
}

}  // namespace

void read_distributed(const Scope& scope, const Node& node, Distributed& section) {
  if (is_null(node) || !check_type(scope, node, Type::Map) || !read_strategy(scope, node, section)) return;
  const Keys<Distributed> keys = common_keys() + strategy_keys(section.strategy);
  read_section(scope, without_foreign_keys(scope, node, keys, section.strategy), keys, section);
  note_sections_without_ranks(scope, section);
}

Keys<DistEnv> dist_env_keys() {
  using E = DistEnv;
  return {
      {"backend",
       [](const Scope& scope, const Node& node, E&) {
         static const Choices<bool> is_ours = {{"nccl", false}, {"gloo", false}, {"mpi", false}, {"cpu:gloo,cuda:nccl", true}};
         if (is_null(node)) return;
         if (read_choice(scope, node, is_ours) == false) scope.note("has no effect: ranks on GPUs talk NCCL, ranks on CPUs MPI");
       }},
      field("timeout_minutes", &E::timeout_minutes, above(0)),
  };
}

}  // namespace tessera::config
