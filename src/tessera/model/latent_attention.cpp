#include "tessera/model/latent_attention.h"

#include "tessera/ops/latent_heads.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/norm.h"

namespace tessera::model {

LatentWeights find_latent_weights(const FindParameter& find) {
  return {.query_down = find("query_down.weight"),
          .query_down_bias = find("query_down.bias"),
          .query_down_norm = find("query_down_norm.weight"),
          .query_up = find("query_up.weight"),
          .key_value_down = find("key_value_down.weight"),
          .key_value_down_bias = find("key_value_down.bias"),
          .key_value_down_norm = find("key_value_down_norm.weight"),
          .key_value_up = find("key_value_up.weight")};
}

ops::HeadViews latent_query_key_value(ops::Tape& tape, const ops::Variable& input_RD, std::int64_t num_tokens, std::int64_t num_rows,
                                      const ModelSpec& spec, const LatentWeights& weights, const ops::RopeTable& table, Projections& projections) {
  const LatentAttentionSpec& latent = *spec.latent_attention;
  const ops::RmsNormOptions norm{latent.norm_eps, 0.0};
  const auto project_queries = [&] {
    if (weights.query_down == nullptr) return projections.column_linear(tape, input_RD, num_tokens, *weights.query_up, nullptr);
    const ops::Variable down = projections.column_linear(tape, input_RD, num_tokens, *weights.query_down, weights.query_down_bias);
    return ops::linear(tape, ops::rms_norm(tape, down, *weights.query_down_norm, norm), *weights.query_up);
  };
  const ops::Variable query = project_queries();
  const ops::ColumnParts down = ops::split_columns(
      tape, projections.column_linear(tape, input_RD, num_tokens, *weights.key_value_down, weights.key_value_down_bias), latent.rank);
  const ops::Variable key_value = ops::linear(tape, ops::rms_norm(tape, down.first, *weights.key_value_down_norm, norm), *weights.key_value_up);
  return ops::latent_heads(tape, query, key_value, down.second, table,
                           {.batch = num_rows,
                            .num_heads = spec.num_attention_heads,
                            .nope_head_dim = latent.nope_head_dim,
                            .rope_head_dim = latent.rope_head_dim,
                            .value_head_dim = spec.value_dim(),
                            .interleaved = latent.interleaved_rope});
}

}  // namespace tessera::model
