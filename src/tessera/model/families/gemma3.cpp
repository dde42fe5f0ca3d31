#include <fmt/format.h>

#include "tessera/model/families/common.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {
namespace {

constexpr std::size_t kFullRope = 0;
constexpr std::size_t kSlidingRope = 1;

/// The object at `key`, an empty one when it is absent; a mistake when it is anything else.
Json object_at(ConfigReader& config, const std::string& key) {
  const Json* found = config.find(key);
  if (found == nullptr || found->is_object()) return found == nullptr ? Json::object() : *found;
  config.wrong(key, "is not an object");
  return Json::object();
}

/// transformers 5: one object per layer type; transformers 4: rope_theta and rope_scaling for full layers, rope_local_base_freq for sliding ones.
std::vector<RopeSpec> read_ropes(ConfigReader& config, const ModelSpec& spec) {
  const Json parameters = object_at(config, "rope_parameters");
  const Json older = object_at(config, "rope_scaling");
  for (const auto& [layers, unused] : parameters.items())
    if (layers != "full_attention" && layers != "sliding_attention")
      config.wrong("rope_parameters", fmt::format("has a field '{}'", layers),
                   "there is one object for full_attention and one for sliding_attention");
  Json full = parameters.value("full_attention", Json::object());
  Json sliding = parameters.value("sliding_attention", Json::object());
  if (full.is_null()) full = Json::object();
  if (sliding.is_null()) sliding = Json::object();
  if (full.is_object()) full.update(older);
  const double local_theta = config.positive_number("rope_local_base_freq", 10000.0);
  if (sliding.is_object() && !sliding.contains("rope_theta")) sliding["rope_theta"] = local_theta;
  RopeDefaults defaults;
  defaults.theta = 1e6;
  const std::string key = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  std::vector<RopeSpec> ropes(2);
  ropes[kFullRope] = read_rope_object(config, full, key, spec, defaults);
  ropes[kSlidingRope] = read_rope_object(config, sliding, key, spec, defaults);
  return ropes;
}

}  // namespace

/// gemma2 with normalised queries and keys, no soft caps by default, five sliding layers to one full, and rotary frequencies of their own for each
/// kind.
void describe_gemma3(ConfigReader& config, ModelSpec& spec) {
  read_gemma_common(config, 131072, spec);
  spec.attention_soft_cap = config.optional_positive_number("attn_logit_softcapping");
  spec.final_soft_cap = config.optional_positive_number("final_logit_softcapping");
  spec.query_key_norm = QueryKeyNorm::Head;
  const std::int64_t pattern = config.size("sliding_window_pattern", 6);
  const std::optional<std::int64_t> window = config.json().contains("sliding_window") ? config.optional_size("sliding_window") : 4096;
  const auto sliding = read_layer_types(config, spec, window, [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) spec.layers[layer].rope = sliding[layer] ? kSlidingRope : kFullRope;
  spec.ropes = read_ropes(config, spec);
  spec.names = sandwich_names();
  spec.names.query_norm = "model.layers.{}.self_attn.q_norm";
  spec.names.key_norm = "model.layers.{}.self_attn.k_norm";
}

}  // namespace tessera::model
