#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/model/spec.h"

namespace tessera::model {

/// The JSON object of a model directory's config.json, or of the file itself. UserError when it is missing or not an object.
Json read_config_json(const std::filesystem::path& directory_or_config_json);

/// Reads what a Hugging Face config.json says about the model. Everything wrong with it is reported in one UserError: missing or impossible
/// sizes, a model_type or a value of a field that changes the mathematics and is not supported. Fields that change nothing are listed in
/// config_fields.cpp; others that are not read cause one warning each. Defaults are those of transformers' configuration classes.
ModelSpec read_model_spec(const std::filesystem::path& directory_or_config_json);
/// The same from parsed JSON; messages start with `where`.
ModelSpec model_spec_from_json(const Json& config, const std::string& where);

/// The model_type values that have a family, sorted.
std::vector<std::string> supported_model_types();

}  // namespace tessera::model
