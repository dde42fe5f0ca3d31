#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/model/parameter_table.h"
#include "tessera/model/spec.h"

namespace tessera::checkpoint {

/// Tells models apart, whatever their precision and layout: a checkpoint only continues in the model that wrote it.
struct ModelSignature {
  std::string description;         ///< for people: "llama: 30 layers, hidden 576, 9 heads (3 key/value), …, 134.5 M parameters"
  std::string hash;                ///< over the names and global shapes of all tensors and the sizes in ModelSpec
  Json numerics = Json::object();  ///< what else decides the results (model_numerics.h); empty in checkpoints of earlier versions

  bool operator==(const ModelSignature&) const = default;
};
ModelSignature model_signature(const model::ModelSpec& spec, const model::ParameterTable& table);

/// "rope.theta: 10000.0 in the checkpoint, 500000.0 in the recipe": what the same weights are now computed with. Nothing where one does not know.
std::vector<std::string> numeric_differences(const ModelSignature& saved, const ModelSignature& ours);
/// UserError at `checkpoint` for a model of other tensors or sizes, which shows both; and for one that only computes otherwise where a run is to go
/// on, not where the weights alone are taken.
void refuse_other_model(const std::filesystem::path& checkpoint, const ModelSignature& saved, const ModelSignature& ours, bool weights_alone);

Json to_json(const ModelSignature& signature);
ModelSignature signature_from_json(const Json& json, const std::string& where);

}  // namespace tessera::checkpoint
