#pragma once

#include "tessera/model/expert_feed_forward.h"
#include "tessera/model/seams.h"
#include "tessera/model/spec.h"
#include "tessera/ops/heads.h"
#include "tessera/ops/tape.h"

namespace tessera::model {

/// The weights before attention of a layer with latent attention; null where the family has none.
struct LatentWeights {
  ops::Parameter *query_down, *query_down_bias, *query_down_norm, *query_up;
  ops::Parameter *key_value_down, *key_value_down_bias, *key_value_down_norm, *key_value_up;
};
LatentWeights find_latent_weights(const FindParameter& find);

/// Queries, keys and values of the layer's heads, rotated, of `num_rows` rows: what the attention seam takes. `spec` has this rank's number of heads:
/// ranks that split them each make the latent vectors of all tokens.
ops::HeadViews latent_query_key_value(ops::Tape& tape, const ops::Variable& input_RD, std::int64_t num_tokens, std::int64_t num_rows,
                                      const ModelSpec& spec, const LatentWeights& weights, const ops::RopeTable& table, Projections& projections);

}  // namespace tessera::model
