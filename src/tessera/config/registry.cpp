#include "tessera/config/registry.h"

#include <algorithm>

#include "tessera/config/targets.h"
#include "tessera/core/text.h"

namespace tessera::config {

std::string_view to_string(TargetKind kind) {
  switch (kind) {
    case TargetKind::Recipe:
      return "recipe class";
    case TargetKind::Model:
      return "model";
    case TargetKind::ModelConfig:
      return "model config";
    case TargetKind::ModelBackend:
      return "model backend";
    case TargetKind::Tokenizer:
      return "tokenizer";
    case TargetKind::Dataset:
      return "dataset";
    case TargetKind::Dataloader:
      return "dataloader";
    case TargetKind::Collate:
      return "collate function";
    case TargetKind::Optimizer:
      return "optimizer";
    case TargetKind::LrScheduler:
      return "learning-rate scheduler";
    case TargetKind::Loss:
      return "loss";
    case TargetKind::Peft:
      return "adapter";
    case TargetKind::Distributed:
      return "strategy";
    case TargetKind::MixedPrecisionPolicy:
      return "mixed-precision policy";
    case TargetKind::OffloadPolicy:
      return "offload policy";
    case TargetKind::Rng:
      return "random generator";
  }
  return "target";
}

std::string_view to_string(Support support) {
  switch (support) {
    case Support::Supported:
      return "supported";
    case Support::NotSupportedYet:
      return "not supported yet";
    case Support::NotSupported:
      return "not supported";
  }
  return "";
}

namespace {

/// Whether `pattern`, in which each * stands for any text, is the whole of `text`.
bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  for (std::size_t skip = star; skip <= text.size(); ++skip) {
    if (matches(pattern.substr(star + 1), text.substr(skip))) return true;
  }
  return false;
}

bool is_exact(std::string_view pattern) { return pattern.find('*') == std::string_view::npos; }

bool has_name(const Target& target, std::string_view name, bool exact) {
  if (exact && !target.native.empty() && target.native == to_lower(name)) return true;
  return std::ranges::any_of(target.python, [&](std::string_view pattern) { return is_exact(pattern) == exact && matches(pattern, name); });
}

const std::vector<Target>& table() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> all;
    for (const auto& part : {model_targets(), data_targets(), training_targets()}) all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return targets;
}

/// One per kind, so that the answer has the kind that was asked for.
const Target* python_file_target(TargetKind kind) {
  static const std::vector<Target> targets = [] {
    std::vector<Target> all;
    for (int i = 0; i <= static_cast<int>(TargetKind::Rng); ++i) {
      all.push_back({static_cast<TargetKind>(i), "", {}, Support::NotSupported, "it is a Python function; Tessera runs no Python", -1});
    }
    return all;
  }();
  return &targets[static_cast<std::size_t>(kind)];
}

std::string_view last_part(std::string_view path) {
  std::size_t dot = path.rfind('.');
  // from_pretrained and from_config name the method; the class before it is what people mistype.
  if (dot != std::string_view::npos && path.substr(dot + 1).starts_with("from_")) dot = path.rfind('.', dot - 1);
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

}  // namespace

std::span<const Target> all_targets() { return table(); }

const Target* find_target(TargetKind kind, std::string_view name) {
  for (const bool exact : {true, false}) {
    for (const Target& target : table()) {
      if (target.kind == kind && has_name(target, name, exact)) return &target;
    }
  }
  return name.find(".py:") != std::string_view::npos ? python_file_target(kind) : nullptr;
}

namespace {

/// Names of this kind, native and Python's, that have (or lack) support.
std::vector<std::string> exact_names(TargetKind kind, bool supported) {
  std::vector<std::string> names;
  for (const Target& target : table()) {
    if (target.kind != kind || (target.support == Support::Supported) != supported) continue;
    if (!target.native.empty()) names.emplace_back(target.native);
    for (const std::string_view path : target.python) {
      if (is_exact(path)) names.emplace_back(path);
    }
  }
  return names;
}

/// Those that resemble the name as a whole, then those whose last part resembles its last part.
std::vector<std::string> nearest_of(std::string_view name, const std::vector<std::string>& candidates) {
  std::vector<std::string> last;
  for (const std::string& candidate : candidates) last.emplace_back(last_part(candidate));
  std::vector<std::string> near = nearest_names(name, candidates);
  for (const std::string& part : nearest_names(last_part(name), last, 5)) {
    const std::string& candidate = candidates[static_cast<std::size_t>(std::ranges::find(last, part) - last.begin())];
    if (near.size() < 3 && std::ranges::find(near, candidate) == near.end()) near.push_back(candidate);
  }
  return near;
}

std::vector<std::string> supported_native_names(TargetKind kind) {
  std::vector<std::string> names;
  for (const Target& target : table()) {
    if (target.kind == kind && target.support == Support::Supported && !target.native.empty()) names.emplace_back(target.native);
  }
  return names;
}

}  // namespace

std::vector<std::string> nearest_targets(TargetKind kind, std::string_view name) {
  // Nobody who mistyped a name is helped by one that is refused.
  for (const bool supported : {true, false}) {
    if (std::vector<std::string> near = nearest_of(name, exact_names(kind, supported)); !near.empty()) return near;
  }
  std::vector<std::string> names = supported_native_names(kind);
  if (names.size() > 6) names.resize(6);
  return names;
}

std::string instead_of(const Target& target) {
  const std::vector<std::string> names = supported_native_names(target.kind);
  return names.empty() ? "leave it out" : "use " + alternatives(names);
}

}  // namespace tessera::config
