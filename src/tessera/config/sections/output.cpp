#include "tessera/config/sections/read.h"
#include "tessera/config/verifications.h"

namespace tessera::config {

const std::vector<std::pair<std::string_view, CheckpointVerify>>& verifications() {
  static const Choices<CheckpointVerify> choices = {
      {"full", CheckpointVerify::Full}, {"sizes", CheckpointVerify::Sizes}, {"off", CheckpointVerify::Off}};
  return choices;
}

namespace {

using C = Checkpoint;

Key<C> save_consolidated() {
  using S = SaveConsolidated;
  return choice("save_consolidated", &C::save_consolidated,
                Choices<S>{{"false", S::Off}, {"final", S::Final}, {"true", S::Every}, {"every", S::Every}});
}

/// A whole number of bytes, or "5GB", "500MB" as transformers writes max_shard_size.
Key<C> max_shard_size() {
  return {"max_shard_size", [](const Scope& scope, const Node& node, C& section) {
            if (is_null(node)) return;
            if (const auto bytes = as_int(node); bytes && *bytes > 0) {
              section.max_shard_size = static_cast<std::uint64_t>(*bytes);
              return;
            }
            static constexpr std::pair<std::string_view, double> units[] = {{"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0},
                                                                            {"GB", 1e9},           {"MB", 1e6},        {"KB", 1e3}};
            for (const auto& [suffix, unit] : units) {
              if (!node.is_scalar() || !node.text.ends_with(suffix)) continue;
              const auto count = as_double(Node::scalar(node.text.substr(0, node.text.size() - suffix.size()), node.position));
              if (!count || *count <= 0 || *count > 1e9) break;
              section.max_shard_size = static_cast<std::uint64_t>(*count * unit);
              return;
            }
            scope.mistake(node, shown(scope, node) + " is not a size", "a size is a number of bytes or a text such as 5GB or 500MB", "use 5GB");
          }};
}

/// "" would be what an unset variable of a shell leaves: not the default.
Key<C> checkpoint_dir() {
  return {"checkpoint_dir", [](const Scope& scope, const Node& node, C& section) {
            if (!is_null(node) && node.is_scalar() && node.text.empty())
              return scope.mistake(node, "is empty", "checkpoints are saved in a directory", "name one, or leave it out for checkpoints/");
            field("checkpoint_dir", &C::checkpoint_dir).read(scope, node, section);
          }};
}

}  // namespace

Keys<Checkpoint> checkpoint_keys() {
  constexpr std::string_view memory = "has no effect: saving copies to staging memory and returns";
  return {
      field("enabled", &C::enabled),
      checkpoint_dir(),
      // Read by read_checkpoint, which knows whether anything is saved.
      {"model_save_format", [](const Scope&, const Node&, C&) {}},
      save_consolidated(),
      max_shard_size(),
      field("is_async", &C::is_async),
      field("max_recent_checkpoints", &C::max_recent_checkpoints, at_least(1)),
      field("best_metric_key", &C::best_metric_key),
      field("restore_from", &C::restore_from),
      field("restore_optimizer", &C::restore_optimizer),
      choice("verify", &C::verify, verifications()),
      {"skip_task_head_prefixes_for_base_model",
       [](const Scope& scope, const Node& node, C&) {
         std::vector<std::string> prefixes;
         if (is_null(node) || !read_value(scope, node, prefixes) || prefixes.empty()) return;
         scope.note("has no effect: causal language models are loaded with their heads");
       }},
      refused<C>("allow_legacy_pickle_restore", Type::Bool, Support::NotSupported, "Tessera reads no pickles"),
      refused<C>("diffusers_compatible", Type::Bool, Support::NotSupported, "checkpoints have the file names of transformers"),
      inert<C>("dequantize_base_checkpoint", Type::Bool, "has no effect: quantised weights are always expanded when they are loaded"),
      inert<C>("v4_compatible", Type::Bool, "has no effect: config.json is saved as it was loaded"),
      inert<C>("wait_for_staging", Type::Bool, std::string(memory)),
      inert<C>("cpu_offload", Type::Bool, std::string(memory)),
      inert<C>("staging_dir", Type::String, "has no effect: checkpoints are staged in memory, and written where they stay"),
      accepted<C>("single_rank_consolidation", Type::Bool),
      accepted<C>("consolidation_timeout_minutes", Type::Number),
      accepted<C>("model_cache_dir", Type::String),
      accepted<C>("model_repo_id", Type::String),
      accepted<C>("original_model_root_dir", Type::String),
      accepted<C>("is_peft", Type::Bool),
      accepted<C>("model_state_dict_keys", Type::Any),
      accepted<C>("load_base_model", Type::Bool),
  };
}

void read_checkpoint(const Scope& scope, const Node& node, Checkpoint& section) {
  read_section(scope, node, checkpoint_keys(), section);
  const Node* format = node.find("model_save_format");
  if (!format || is_null(*format)) return;
  const Scope at = scope.child("model_save_format");
  const auto known = read_choice(at, *format, Choices<bool>{{"safetensors", true}, {"torch_save", false}});
  if (known && !*known && section.enabled) {
    at.unsupported(*format, shown(at, *format), Support::NotSupported, "torch_save writes Python pickles, which Tessera neither writes nor reads",
                   "use safetensors");
  }
}

Keys<Logging> logging_keys() {
  using L = Logging;
  return {
      {"level",
       [](const Scope& scope, const Node& node, L& section) {
         static const Choices<log::Level> choices = {
             {"debug", log::Level::Info}, {"info", log::Level::Info}, {"warning", log::Level::Warning}, {"error", log::Level::Error}};
         if (is_null(node)) return;
         const auto level = read_choice(scope, node, choices);
         if (!level) return;
         section.level = *level;
         if (normalized_choice(node.text) == "debug") scope.note("debug shows no more than info");
       }},
      field("directory", &L::directory),
      field("tensorboard", &L::tensorboard),
  };
}

Keys<FreezeConfig> freeze_config_keys() {
  using F = FreezeConfig;
  return {
      field("freeze_embeddings", &F::freeze_embeddings),
      field("freeze_language_model", &F::freeze_language_model),
      {"patterns",
       [](const Scope& scope, const Node& node, F& section) {
         if (is_null(node) || !read_value(scope, node, section.patterns)) return;
         for (std::size_t i = 0; i < section.patterns.size(); ++i) {
           const bool single = node.is_scalar();
           read_regular_expression(single ? scope : scope.child(std::to_string(i)), single ? node : node.items[i], section.patterns[i]);
         }
       }},
      // Towers that a text model does not have.
      accepted<F>("freeze_vision_tower", Type::Bool),
      accepted<F>("freeze_audio_tower", Type::Bool),
      accepted<F>("freeze_video_embedder", Type::Bool),
  };
}

void check_peft(const Scope& scope, const Node& node) {
  struct Peft {};
  using P = Peft;
  if (is_null(node) || !check_type(scope, node, Type::Map)) return;
  const Target* target = read_target(scope, node, TargetKind::Peft, "lora");
  if (!target) return;
  if (!has_target(node) && target->support != Support::Supported)
    scope.unsupported(node, "", target->support, std::string(target->reason), "remove the section");
  const Keys<P> keys = {
      accepted<P>("target_modules", Type::Any),
      accepted<P>("exclude_modules", Type::Any),
      accepted<P>("match_all_linear", Type::Bool),
      accepted<P>("dim", Type::Int),
      accepted<P>("alpha", Type::Number),
      accepted<P>("dropout", Type::Number),
      accepted<P>("dropout_position", Type::String),
      accepted<P>("use_dora", Type::Bool),
      accepted<P>("lora_A_init", Type::String),
      accepted<P>("moe_rank_scaling", Type::Bool),
      accepted<P>("lora_dtype", Type::String),
      accepted<P>("use_memory_efficient_lora", Type::Bool),
      accepted<P>("use_triton", Type::Bool),
      target_key<P>(),
  };
  P section;
  read_section(scope, node, keys, section);
}

}  // namespace tessera::config
