#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "tessera/core/json.h"
#include "tessera/model/spec.h"

/// For messages: where the fields of a model's configuration stand.
namespace tessera::model {

/// Where a field stands: "path:line", or the path alone.
using LocateField = std::function<std::string(const std::string& key)>;

/// The lines of a file's fields, read once. The first `"key":` counts.
LocateField lines_of_fields(const std::filesystem::path& config_json);

/// model_spec_from_json of a configuration whose fields stand in several places; messages about the whole start with `where`.
ModelSpec model_spec_from_json(const Json& config, const std::string& where, const LocateField& locate);

}  // namespace tessera::model
