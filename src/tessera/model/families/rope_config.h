#pragma once

#include "tessera/model/config_reader.h"
#include "tessera/model/spec.h"

namespace tessera::model {

struct RopeDefaults {
  double theta = 10000.0;
  bool partial = false;               ///< the family may rotate only part of each head
  double partial_factor = 1.0;        ///< what part, where the file does not say
  bool older_longrope_names = false;  ///< phi3: "su" and "yarn" mean longrope
};

/// The rotary settings of a model that has one set: rope_scaling and rope_theta (transformers 4), or rope_parameters (transformers 5).
/// Needs head_dim and max_position_embeddings.
RopeSpec read_rope(ConfigReader& config, const ModelSpec& spec, const RopeDefaults& defaults = {});

/// One set from an object that holds it ({} for plain rotary embedding); `key` names the object in messages.
RopeSpec read_rope_object(ConfigReader& config, const Json& object, const std::string& key, const ModelSpec& spec, const RopeDefaults& defaults);

}  // namespace tessera::model
