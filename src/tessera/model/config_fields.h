#pragma once

#include <string>

#include "tessera/core/json.h"

namespace tessera::model {

enum class FieldMeaning {
  Inert,    ///< does not change what the model computes
  Off,      ///< would, but its value says that the feature is not used
  Refused,  ///< changes the mathematics in a way that is not supported
  Unknown
};

/// What a config.json field that no family asked for means.
FieldMeaning meaning_of_unread_field(const std::string& key, const Json& value);

}  // namespace tessera::model
