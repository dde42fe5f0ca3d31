#pragma once

#include <string>

#include "tessera/core/json.h"
#include "tessera/model/parameter_table.h"
#include "tessera/model/spec.h"

namespace tessera::checkpoint {

/// Tells models apart, whatever their precision and layout: a checkpoint only continues in the model that wrote it.
struct ModelSignature {
  std::string description;  ///< for people: "llama: 30 layers, hidden 576, 9 heads (3 key/value), …, 134.5 M parameters"
  std::string hash;         ///< over the names and global shapes of all tensors and the sizes in ModelSpec

  bool operator==(const ModelSignature&) const = default;
};
ModelSignature model_signature(const model::ModelSpec& spec, const model::ParameterTable& table);

Json to_json(const ModelSignature& signature);
ModelSignature signature_from_json(const Json& json, const std::string& where);

}  // namespace tessera::checkpoint
