#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::config {

/// What a `_target_` stands for, by the place where it is written.
enum class TargetKind : std::uint8_t {
  Recipe,
  Model,
  ModelConfig,
  ModelBackend,
  Tokenizer,
  Dataset,
  Dataloader,
  Collate,
  Optimizer,
  LrScheduler,
  Loss,
  Peft,
  Distributed,
  MixedPrecisionPolicy,
  OffloadPolicy,
  Rng,
};
/// "dataset", "collate function", …: for messages.
std::string_view to_string(TargetKind kind);

enum class Support : std::uint8_t { Supported, NotSupportedYet, NotSupported };
/// "supported", "not supported yet", "not supported".
std::string_view to_string(Support support);

/// One thing that recipes can name.
struct Target {
  TargetKind kind;
  std::string_view native;                    ///< Tessera's short name, e.g. "adamw"; "" when it has none
  std::vector<std::string_view> python = {};  ///< import paths; a "*" stands for any text
  Support support = Support::Supported;
  std::string_view reason = {};  ///< why it is not supported
  int value = 0;                 ///< the enumerator of the section's own kind (OptimizerKind, DatasetKind, …)
};

/// The entry that a name in a recipe means: its native name (case does not matter) or one of its import paths, or nullptr.
/// "file.py:name" is an entry of its own that is not supported: Tessera runs no Python.
const Target* find_target(TargetKind kind, std::string_view name);
/// Names of this kind that resemble an unknown one: supported ones, or others where no supported one does.
std::vector<std::string> nearest_targets(TargetKind kind, std::string_view name);
/// What to do about a target that is not supported: "use adamw, adam, fused_adam or flash_adamw", or "remove the section".
std::string instead_of(const Target& target);

/// What a model target builds (Target::value of TargetKind::Model).
enum class ModelTarget : std::uint8_t { Pretrained, Config, Gpt2Builder, Other };
/// What a recipe class does (Target::value of TargetKind::Recipe).
enum class RecipeTarget : std::uint8_t { Train, Benchmark, Other };

/// Every entry, for tests.
std::span<const Target> all_targets();

}  // namespace tessera::config
