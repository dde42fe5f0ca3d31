#include "tessera/parallel/tensor/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <set>

#include "tessera/core/text.h"

namespace tessera::parallel {
namespace {

using model::Role;

enum class Cut : std::uint8_t { Outputs, Inputs, None };

struct Style {
  std::string_view name;
  Cut cut;
};
constexpr std::array kStyles = {Style{"colwise", Cut::Outputs},
                                Style{"colwise_rep", Cut::Outputs},
                                Style{"colwise_gather_output", Cut::Outputs},
                                Style{"packed_colwise", Cut::Outputs},
                                Style{"embedding_rowwise", Cut::Inputs},
                                Style{"rowwise", Cut::Inputs},
                                Style{"rowwise_rep", Cut::Inputs},
                                Style{"rowwise_split_input", Cut::Inputs},
                                Style{"replicate", Cut::None},
                                Style{"sequence_parallel", Cut::None},
                                Style{"replicated_with_grad_allreduce", Cut::None},
                                Style{"moe_tp_experts", Cut::None}};

/// Hugging Face's other styles: of other ways to split a layer than those here.
constexpr std::array<std::string_view, 9> kOtherStyles = {"embedding_colwise",   "packed_rowwise",      "mla_kv_a_proj",
                                                          "all_reduce",          "moe_identity_expert", "local_params",
                                                          "ep_dispatch_experts", "grouped_gemm",        "ep_router"};

/// A module of a checkpoint: the name of its tensors without ".weight" and ".bias".
struct Module {
  std::string name;
  Role role;
  std::optional<Cut> cut = {};
};

std::vector<Module> modules_of(const model::ParameterTable& table) {
  std::vector<Module> modules;
  std::set<std::string> known;
  for (const model::ParameterSpec& parameter : table.parameters) {
    for (const model::Piece& piece : parameter.pieces) {
      const std::string name = piece.tensor.substr(0, piece.tensor.rfind('.'));
      if (known.insert(name).second) modules.push_back({name, parameter.role});
    }
  }
  if (table.tied_head) modules.push_back({table.tied_head_tensor.substr(0, table.tied_head_tensor.rfind('.')), Role::Head});
  return modules;
}

/// Modules that Hugging Face's plans of this model name and its checkpoints do not: stacked experts, and the dense feed-forward of a family some of
/// whose models have experts in every layer.
std::vector<Module> modules_of_plans_alone(const model::ModelSpec& spec, const model::ParameterTable& table) {
  std::vector<Module> modules;
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    if (!spec.layers[layer].experts) continue;
    const std::string mlp = fmt::format("{}layers.{}.mlp.", table.base_prefix, layer);
    for (const char* const name : {"experts", "experts.gate_up_proj", "experts.down_proj"}) modules.push_back({mlp + name, Role::Experts});
    for (const char* const name : {"gate_proj", "up_proj"}) modules.push_back({mlp + name, Role::GateUp});
    modules.push_back({mlp + "down_proj", Role::Down});
  }
  return modules;
}

/// "model.layers.0.mlp.experts.3.up_proj" -> "model.layers.*.mlp.experts.*.up_proj".
std::string with_star(const std::string& name) {
  static const std::regex number("\\.[0-9]+\\.");
  return std::regex_replace(name, number, ".*.");
}

/// `*` stands for characters without a dot; the model's prefix may be left out.
std::regex to_regex(const std::string& pattern, const std::string& prefix) {
  std::string text;
  for (const char c : pattern) {
    if (c == '*') {
      text += "[^.]+";
    } else {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') text += '\\';
      text += c;
    }
  }
  std::string escaped;
  for (const char c : prefix) escaped += c == '.' ? "\\." : std::string(1, c);
  return std::regex("(" + escaped + ")?" + text);
}

class Reader {
 public:
  Reader(const model::ModelSpec& spec, std::string where, ProblemList& problems)
      : table_(model::parameter_table(spec)), modules_(modules_of(table_)), where_(std::move(where)), problems_(problems) {
    for (Module& module : modules_of_plans_alone(spec, table_))
      if (std::ranges::find(modules_, module.name, &Module::name) == modules_.end()) modules_.push_back(std::move(module));
  }

  TensorPlan read(const std::map<std::string, std::string>& tp_plan, bool sequence_parallel) {
    for (const auto& [pattern, style] : tp_plan) apply(pattern, style, sequence_parallel);
    TensorPlan plan{.attention = cut_together({Role::QueryKeyValue, Role::LatentUp}, {Role::Output}, "queries, keys, values and the output"),
                    .feed_forward = cut_together({Role::GateUp}, {Role::Down}, "gate, up and down"),
                    .embedding = cut_by_tokens(Role::Embedding),
                    .head = cut_by_tokens(Role::Head)};
    if (table_.tied_head && plan.embedding != plan.head) {
      add("the embedding and the head are one tensor, and only one of them is cut", "give both a style that cuts, or neither");
    }
    return plan;
  }

 private:
  void add(const std::string& what, const std::string& fix, const std::string& rule = "") {
    problems_.add({where_, "distributed.tp_plan: " + what, rule, fix});
  }

  void apply(const std::string& pattern, const std::string& style, bool sequence_parallel) {
    const auto known = std::ranges::find(kStyles, style, &Style::name);
    if (known == kStyles.end()) return refuse_style(style);
    if (style == "sequence_parallel" && !sequence_parallel)
      add("the style sequence_parallel does not go with sequence_parallel: false", "set distributed.sequence_parallel: true");
    const std::regex regex = to_regex(pattern, table_.base_prefix);
    bool matched = false;
    const Module* never_cut = nullptr;
    for (Module& module : modules_) {
      if (!std::regex_match(module.name, regex)) continue;
      matched = true;
      if (known->cut != Cut::None && !can_be_cut(module.role) && !is_of_experts(module.role)) never_cut = &module;
      module.cut = is_of_experts(module.role) ? Cut::None : known->cut;
    }
    if (never_cut != nullptr)
      add(fmt::format("\"{}\": {} is never cut", pattern, with_star(never_cut->name)), "leave it out, or give it replicate",
          "ranks of tp have all routers, norms and latent projections whole");
    if (!matched)
      add(fmt::format("\"{}\" matches no module", pattern), nearest_module(pattern), "a pattern that matches nothing would change nothing");
  }

  void refuse_style(const std::string& style) {
    std::vector<std::string> names;
    for (const Style& each : kStyles) names.emplace_back(each.name);
    const bool elsewhere = std::ranges::find(kOtherStyles, style) != kOtherStyles.end();
    const std::string meant = elsewhere ? "" : did_you_mean(style, names);
    add(fmt::format("\"{}\" is {}", style, elsewhere ? "a style that is not supported" : "an unknown style"),
        meant.empty() ? fmt::format("use {}", fmt::join(names, ", ")) : meant);
  }

  std::string nearest_module(const std::string& pattern) const {
    std::set<std::string> names;
    for (const Module& module : modules_) {
      const std::string name = with_star(module.name);
      names.insert(pattern.starts_with(table_.base_prefix) || !name.starts_with(table_.base_prefix) ? name : name.substr(table_.base_prefix.size()));
    }
    const std::string meant = did_you_mean(pattern, std::vector<std::string>(names.begin(), names.end()));
    return meant.empty() ? fmt::format("module names look like {}", with_star(modules_[modules_.size() / 2].name)) : meant;
  }

  static bool can_be_cut(Role role) { return TensorPlan().splits(role) && role != Role::LatentDown && role != Role::Sinks; }
  /// Whole on every rank, which has a share of their tokens, whatever the style: the numbers are the same.
  static bool is_of_experts(Role role) { return role == Role::Experts || role == Role::SharedExpert; }

  /// Whether all modules of these roles are cut as said; all or none must be.
  bool cut_together(const std::set<Role>& by_outputs, const std::set<Role>& by_inputs, const std::string& names) {
    std::int64_t cut = 0, whole = 0, wrong = 0;
    for (const Module& module : modules_) {
      if (!by_outputs.contains(module.role) && !by_inputs.contains(module.role)) continue;
      const Cut wanted = by_outputs.contains(module.role) ? Cut::Outputs : Cut::Inputs;
      const Cut given = module.cut.value_or(Cut::None);
      (given == Cut::None ? whole : given == wanted ? cut : wrong) += 1;
    }
    if (wrong > 0 || (cut > 0 && whole > 0))
      add(names + " are not cut together in every layer", "give them colwise and rowwise in all layers, or leave all of them out",
          "what one product cuts by outputs the next one takes by inputs");
    return cut > 0;
  }

  bool cut_by_tokens(Role role) const {
    return std::ranges::any_of(modules_, [&](const Module& module) { return module.role == role && module.cut.value_or(Cut::None) != Cut::None; });
  }

  model::ParameterTable table_;
  std::vector<Module> modules_;
  std::string where_;
  ProblemList& problems_;
};

std::string split_of(const Module& module, const model::ModelSpec& spec, std::int64_t size) {
  switch (module.role) {
    case Role::QueryKeyValue: {
      const std::int64_t keys = std::max<std::int64_t>(1, spec.num_key_value_heads / size);
      return fmt::format("colwise: {} of {} heads (keys and values: {} of {})", spec.num_attention_heads / size, spec.num_attention_heads, keys,
                         spec.num_key_value_heads);
    }
    case Role::Output:
      return fmt::format("rowwise: {} of {} heads", spec.num_attention_heads / size, spec.num_attention_heads);
    case Role::LatentUp:
    case Role::Sinks:
      return fmt::format("colwise: {} of {} heads", spec.num_attention_heads / size, spec.num_attention_heads);
    case Role::LatentDown:
      return "replicate: for this rank's heads";
    case Role::GateUp:
      return fmt::format("colwise: {} of {}", spec.intermediate_size / size, spec.intermediate_size);
    case Role::Down:
      return fmt::format("rowwise: {} of {}", spec.intermediate_size / size, spec.intermediate_size);
    default:
      return fmt::format("vocabulary: {} of {} tokens", (spec.vocab_size + size - 1) / size, spec.vocab_size);
  }
}

}  // namespace

bool TensorPlan::splits(Role role) const {
  switch (role) {
    case Role::Embedding:
      return embedding;
    case Role::Head:
      return head;
    case Role::QueryKeyValue:
    case Role::LatentDown:
    case Role::LatentUp:
    case Role::Sinks:
    case Role::Output:
      return attention;
    case Role::GateUp:
    case Role::Down:
      return feed_forward;
    case Role::Router:
    case Role::Experts:
    case Role::SharedExpert:
    case Role::Norm:
    case Role::PositionEmbedding:
      return false;
  }
  return false;
}

TensorPlan tensor_plan(const std::map<std::string, std::string>& tp_plan, const model::ModelSpec& spec, bool sequence_parallel,
                       const std::string& where, ProblemList& problems) {
  if (tp_plan.empty()) return {};
  return Reader(spec, where, problems).read(tp_plan, sequence_parallel);
}

TensorPlan plan_split(const config::Distributed& distributed, const model::ModelSpec& spec, const config::Locate& locate, ProblemList& problems) {
  const TensorPlan plan =
      tensor_plan(distributed.tp_plan, spec, distributed.sequence_parallel, locate ? locate("distributed.tp_plan") : "", problems);
  const bool dense = std::ranges::any_of(spec.layers, [](const model::LayerSpec& layer) { return !layer.experts; });
  config::validate_model_split(distributed,
                               {.num_attention_heads = spec.num_attention_heads,
                                .num_key_value_heads = spec.num_key_value_heads,
                                .intermediate_size = dense && plan.feed_forward ? spec.intermediate_size : 0,
                                .num_experts = spec.experts ? spec.experts->num_experts : 0,
                                .heads_are_cut = plan.attention},
                               locate, problems);
  return plan;
}

std::vector<std::string> describe(const TensorPlan& plan, const model::ModelSpec& spec, std::int64_t size, bool sequence_parallel) {
  std::vector<std::string> lines;
  std::set<std::string> known;
  for (const Module& module : modules_of(model::parameter_table(spec))) {
    const std::string name = with_star(module.name);
    if (!known.insert(name).second) continue;
    const bool of_experts = module.role == Role::Router || module.role == Role::Experts || module.role == Role::SharedExpert;
    const std::string whole = of_experts                                       ? "replicate: for this rank's tokens"
                              : sequence_parallel && module.role == Role::Norm ? "sequence_parallel"
                                                                               : "replicate";
    lines.push_back(fmt::format("{:<44} {}", name, plan.splits(module.role) ? split_of(module, spec, size) : whole));
  }
  return lines;
}

}  // namespace tessera::parallel
