#include "tessera/model/families/rope_config.h"

#include <fmt/format.h>

#include <map>

#include "tessera/core/logging.h"

namespace tessera::model {
namespace {

/// What the size of a head follows from.
std::vector<std::string> sizes_of_a_head() { return {"head_dim", "hidden_size", "num_attention_heads", "partial_rotary_factor"}; }

std::optional<RopeKind> rope_kind(const std::string& name) {
  static const std::map<std::string, RopeKind, std::less<>> kKinds = {{"default", RopeKind::Default},   {"linear", RopeKind::Linear},
                                                                      {"dynamic", RopeKind::Dynamic},   {"yarn", RopeKind::Yarn},
                                                                      {"longrope", RopeKind::Longrope}, {"llama3", RopeKind::Llama3}};
  const auto found = kKinds.find(name);
  return found == kKinds.end() ? std::nullopt : std::optional(found->second);
}

RopeKind read_kind(ConfigReader& rope, const RopeDefaults& defaults) {
  const std::string older = rope.text("type", "default");  // transformers before 4.43 wrote "type"
  std::string name = rope.text("rope_type", older);
  if (defaults.older_longrope_names && (name == "su" || name == "yarn")) name = "longrope";
  if (const auto kind = rope_kind(name)) return *kind;
  rope.not_supported(rope.has("rope_type") ? "rope_type" : "type", "rotary embeddings are default, linear, dynamic, yarn, longrope or llama3",
                     "copy rope_scaling from the model's published config.json; if it says the same, choose another model");
  return RopeKind::Default;
}

/// An odd number of rotated dimensions: of the share where one is given, else of the head itself.
void report_odd_rotary_dim(ConfigReader& holder, const ModelSpec& spec, std::int64_t rotary_dim) {
  const std::string rule = "dimensions are rotated in pairs";
  if (holder.has("partial_rotary_factor"))
    return holder.contradicts("partial_rotary_factor", sizes_of_a_head(),
                              fmt::format("and head_dim ({}) make {} rotated dimensions", spec.head_dim, rotary_dim), rule);
  const std::string key = holder.has("head_dim") ? "head_dim" : "hidden_size";
  holder.contradicts(key, sizes_of_a_head(), fmt::format("makes heads of {} dimensions, {} of them rotated", spec.head_dim, rotary_dim), rule);
}

/// The share of a head that is rotated is a field of the object or of the config around it.
void read_rotary_dim(ConfigReader& config, ConfigReader& rope, const ModelSpec& spec, const RopeDefaults& defaults, RopeSpec& result) {
  const std::string key = "partial_rotary_factor";
  config.find(key);  // known, whichever counts
  ConfigReader& holder = rope.has(key) ? rope : config;
  double partial = holder.number(key, defaults.partial_factor);
  if (partial <= 0.0 || partial > 1.0) {
    holder.wrong(key, fmt::format("is {}, not a share of the head", partial));
    partial = 1.0;
  }
  if (partial != 1.0 && !defaults.partial) holder.not_supported(key, fmt::format("{} models rotate whole heads", spec.model_type));
  result.rotary_dim = static_cast<std::int64_t>(static_cast<double>(spec.head_dim) * partial);
  if (result.rotary_dim < 2 || result.rotary_dim % 2 != 0) report_odd_rotary_dim(holder, spec, result.rotary_dim);
}

/// factor, or what the context lengths imply.
double read_factor(ConfigReader& rope, bool implied_by_lengths, const RopeSpec& spec) {
  if (!rope.has("factor") && implied_by_lengths) {
    return static_cast<double>(spec.max_position_embeddings) / static_cast<double>(spec.original_max_position_embeddings);
  }
  if (!rope.has("factor")) rope.wrong("factor", "is missing", "this kind of rotary embedding stretches the context by it");
  return rope.positive_number("factor", 1.0);
}

void read_yarn(ConfigReader& rope, RopeSpec& result) {
  result.attention_factor = rope.optional_positive_number("attention_factor");
  result.beta_fast = rope.positive_number("beta_fast", 32.0);
  result.beta_slow = rope.positive_number("beta_slow", 1.0);
  result.truncate = rope.boolean("truncate", true);
  if (rope.has("mscale")) result.mscale = rope.number("mscale", 0.0);
  if (rope.has("mscale_all_dim")) result.mscale_all_dim = rope.number("mscale_all_dim", 0.0);
}

void read_longrope(ConfigReader& rope, RopeSpec& result) {
  result.attention_factor = rope.optional_positive_number("attention_factor");
  result.short_factor = rope.positive_numbers("short_factor");
  result.long_factor = rope.positive_numbers("long_factor");
  for (const auto& [key, factors] : {std::pair("short_factor", &result.short_factor), std::pair("long_factor", &result.long_factor)}) {
    if (static_cast<std::int64_t>(factors->size()) == result.rotary_dim / 2) continue;
    rope.contradicts(key, sizes_of_a_head(), fmt::format("has {} entries, not {}", factors->size(), result.rotary_dim / 2),
                     "there is one for every rotated pair of dimensions");
  }
}

void read_llama3(ConfigReader& rope, RopeSpec& result) {
  result.low_freq_factor = rope.positive_number("low_freq_factor", 1.0);
  result.high_freq_factor = rope.positive_number("high_freq_factor", 4.0);
  if (result.high_freq_factor <= result.low_freq_factor) {
    rope.contradicts("high_freq_factor", {"low_freq_factor"},
                     fmt::format("({}) is not above low_freq_factor ({})", result.high_freq_factor, result.low_freq_factor));
  }
}

void read_kind_fields(ConfigReader& rope, RopeSpec& result) {
  switch (result.kind) {
    case RopeKind::Default:
      break;
    case RopeKind::Linear:
    case RopeKind::Dynamic:
      result.factor = read_factor(rope, false, result);
      break;
    case RopeKind::Yarn:
      result.factor = read_factor(rope, true, result);
      read_yarn(rope, result);
      break;
    case RopeKind::Longrope:
      result.factor = read_factor(rope, true, result);
      read_longrope(rope, result);
      break;
    case RopeKind::Llama3:
      result.factor = read_factor(rope, false, result);
      read_llama3(rope, result);
      break;
  }
}

void warn_about_unread(const ConfigReader& rope, const std::string& key) {
  for (const std::string& field : rope.unread()) {
    log::warning("{}.{} is not a field of this kind of rotary embedding; it is ignored", key, field);
  }
}

}  // namespace

RopeSpec read_rope_object(ConfigReader& config, const Json& object, const std::string& key, const ModelSpec& spec, const RopeDefaults& defaults) {
  RopeSpec result;
  if (!object.is_object()) {
    config.wrong(key, "is not an object");
    return result;
  }
  ConfigReader rope = config.nested(object, key);
  result.kind = read_kind(rope, defaults);
  // Values inside the object come before those around it.
  result.theta = rope.positive_number("rope_theta", config.positive_number("rope_theta", defaults.theta));
  read_rotary_dim(config, rope, spec, defaults, result);
  result.max_position_embeddings = spec.max_position_embeddings;
  // phi3 keeps the original length outside the object, and that one comes first.
  const std::int64_t inside = rope.size("original_max_position_embeddings", spec.max_position_embeddings);
  result.original_max_position_embeddings = config.size("original_max_position_embeddings", inside);
  read_kind_fields(rope, result);
  warn_about_unread(rope, key);
  config.absorb(std::move(rope));
  return result;
}

RopeSpec read_rope(ConfigReader& config, const ModelSpec& spec, const RopeDefaults& defaults) {
  const Json* older = config.find("rope_scaling");
  const Json* newer = config.find("rope_parameters");
  if (older != nullptr && !older->empty()) return read_rope_object(config, *older, "rope_scaling", spec, defaults);
  if (newer == nullptr || newer->empty()) return read_rope_object(config, Json::object(), "rope_parameters", spec, defaults);
  if (newer->is_object() && (newer->contains("full_attention") || newer->contains("sliding_attention"))) {
    config.not_supported("rope_parameters", fmt::format("{} models have one set of rotary frequencies for all layers", spec.model_type));
    return {};
  }
  return read_rope_object(config, *newer, "rope_parameters", spec, defaults);
}

}  // namespace tessera::model
