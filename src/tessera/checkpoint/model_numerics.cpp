#include "tessera/checkpoint/model_numerics.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "tessera/core/error.h"

namespace tessera::checkpoint {
namespace {

const char* name_of(model::NormKind kind) { return kind == model::NormKind::Rms ? "rms" : "layer"; }
const char* name_of(model::PositionKind kind) { return kind == model::PositionKind::Rope ? "rope" : "learned"; }
const char* name_of(model::FeedForwardKind kind) { return kind == model::FeedForwardKind::Gated ? "gated" : "plain"; }

const char* name_of(model::NormPlacement placement) {
  switch (placement) {
    case model::NormPlacement::Pre:
      return "pre";
    case model::NormPlacement::Post:
      return "post";
    case model::NormPlacement::Sandwich:
      return "sandwich";
  }
  TESSERA_ASSERT(false, "no such placement");
}

const char* name_of(model::QueryKeyNorm norm) {
  switch (norm) {
    case model::QueryKeyNorm::None:
      return "none";
    case model::QueryKeyNorm::Head:
      return "head";
    case model::QueryKeyNorm::Projection:
      return "projection";
  }
  TESSERA_ASSERT(false, "no such norm");
}

const char* name_of(model::Activation activation) {
  switch (activation) {
    case model::Activation::Silu:
      return "silu";
    case model::Activation::GeluTanh:
      return "gelu_tanh";
    case model::Activation::GeluErf:
      return "gelu";
    case model::Activation::Relu:
      return "relu";
  }
  TESSERA_ASSERT(false, "no such activation");
}

const char* name_of(model::RopeKind kind) {
  switch (kind) {
    case model::RopeKind::Default:
      return "default";
    case model::RopeKind::Linear:
      return "linear";
    case model::RopeKind::Dynamic:
      return "dynamic";
    case model::RopeKind::Yarn:
      return "yarn";
    case model::RopeKind::Longrope:
      return "longrope";
    case model::RopeKind::Llama3:
      return "llama3";
  }
  TESSERA_ASSERT(false, "no such kind");
}

const char* name_of(model::RouterScoring scoring) {
  switch (scoring) {
    case model::RouterScoring::SoftmaxThenTopK:
      return "softmax_then_top_k";
    case model::RouterScoring::TopKThenSoftmax:
      return "top_k_then_softmax";
    case model::RouterScoring::Sigmoid:
      return "sigmoid";
  }
  TESSERA_ASSERT(false, "no such scoring");
}

template <class Value>
Json optional(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json of_layers(const model::ModelSpec& spec, const std::function<Json(const model::LayerSpec&)>& field) {
  Json values = Json::array();
  for (const model::LayerSpec& layer : spec.layers) values.push_back(field(layer));
  const bool agree = std::ranges::all_of(values, [&](const Json& value) { return value == values.front(); });
  return agree && !values.empty() ? values.front() : values;
}

Json numerics(const model::RopeSpec& rope) {
  Json fields{{"kind", name_of(rope.kind)},
              {"theta", rope.theta},
              {"factor", rope.factor},
              {"rotary_dim", rope.rotary_dim},
              {"low_freq_factor", rope.low_freq_factor},
              {"high_freq_factor", rope.high_freq_factor},
              {"beta_fast", rope.beta_fast},
              {"beta_slow", rope.beta_slow},
              {"truncate", rope.truncate},
              {"attention_factor", optional(rope.attention_factor)},
              {"mscale", optional(rope.mscale)},
              {"mscale_all_dim", optional(rope.mscale_all_dim)},
              {"short_factor", rope.short_factor},
              {"long_factor", rope.long_factor}};
  // The length of the context is a limit, and decides results only where frequencies are made of it.
  if (rope.kind == model::RopeKind::Dynamic) fields["max_position_embeddings"] = rope.max_position_embeddings;
  if (rope.kind == model::RopeKind::Yarn || rope.kind == model::RopeKind::Longrope || rope.kind == model::RopeKind::Llama3)
    fields["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  return fields;
}

Json numerics(const model::ExpertsSpec& experts) {
  return {{"experts_per_token", experts.experts_per_token},
          {"shared_gate", experts.shared_gate},
          {"scoring", name_of(experts.scoring)},
          {"normalize", experts.normalize},
          {"scale", experts.scale},
          {"num_groups", experts.num_groups},
          {"groups_per_token", experts.groups_per_token},
          {"correction_bias", experts.correction_bias},
          {"limit", optional(experts.limit)},
          {"alpha", experts.alpha},
          {"interleaved_gate", experts.interleaved_gate}};
}

Json numerics(const model::LatentAttentionSpec& latent) {
  return {{"nope_head_dim", latent.nope_head_dim},
          {"rope_head_dim", latent.rope_head_dim},
          {"norm_eps", latent.norm_eps},
          {"interleaved_rope", latent.interleaved_rope}};
}

void add(Json& all, const std::string& prefix, const Json& fields) {
  for (const auto& [key, value] : fields.items()) all[prefix + "." + key] = value;
}

}  // namespace

Json model_numerics(const model::ModelSpec& spec) {
  Json all{{"position", name_of(spec.position)},
           {"norm", name_of(spec.norm)},
           {"norm_placement", name_of(spec.norm_placement)},
           {"norm_eps", spec.norm_eps},
           {"norm_weight_offset", spec.norm_weight_offset},
           {"query_key_norm", name_of(spec.query_key_norm)},
           {"attention_scale", spec.attention_scale},
           {"attention_soft_cap", optional(spec.attention_soft_cap)},
           {"attention_sinks", spec.attention_sinks},
           {"final_soft_cap", optional(spec.final_soft_cap)},
           {"feed_forward", name_of(spec.feed_forward)},
           {"activation", name_of(spec.activation)},
           {"embedding_multiplier", spec.embedding_multiplier},
           {"residual_multiplier", spec.residual_multiplier},
           {"logits_divisor", spec.logits_divisor}};
  all["layers.sliding_window"] = of_layers(spec, [](const model::LayerSpec& layer) { return optional(layer.sliding_window); });
  all["layers.rope"] = of_layers(spec, [](const model::LayerSpec& layer) { return Json(layer.rope); });
  all["layers.attention_scale_factor"] = of_layers(spec, [](const model::LayerSpec& layer) { return Json(layer.attention_scale_factor); });
  for (std::size_t i = 0; i < spec.ropes.size(); ++i) add(all, spec.ropes.size() == 1 ? "rope" : fmt::format("ropes.{}", i), numerics(spec.ropes[i]));
  if (spec.experts) add(all, "experts", numerics(*spec.experts));
  if (spec.latent_attention) add(all, "latent_attention", numerics(*spec.latent_attention));
  return all;
}

}  // namespace tessera::checkpoint
