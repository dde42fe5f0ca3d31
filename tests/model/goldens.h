#pragma once

#include <filesystem>
#include <string>

#include "support/support.h"
#include "tessera/model/config.h"
#include "tessera/model/parameter_table.h"

namespace tessera::test {

/// The directory of one of the tiny models whose numbers transformers computed.
inline std::filesystem::path golden(const std::string& name) { return test_data("goldens/" + name); }
inline model::ModelSpec golden_spec(const std::string& name) { return model::read_model_spec(golden(name)); }
inline model::ParameterTable table_of(const std::string& name) { return model::parameter_table(golden_spec(name)); }

}  // namespace tessera::test
