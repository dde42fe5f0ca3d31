#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "tessera/checkpoint/reshard.h"
#include "tessera/core/environment.h"
#include "tessera/core/json.h"
#include "tessera/mesh/mesh_context.h"

namespace tessera::train {

/// What a manifest says of the ranks that saved it: {"world_size": 4, "pp": 1, …}.
Json layout_json(const mesh::MeshSizes& sizes);

/// How `num_ranks` ranks would hold the state of a checkpoint, by the recipe that it keeps and overrides of its `distributed` section
/// ("--distributed.strategy=ddp"). UserError for what is not a complete checkpoint, for other overrides, and for sizes that break a rule.
checkpoint::ReshardLayout reshard_layout(const std::filesystem::path& checkpoint, std::span<const std::string> overrides, std::int64_t num_ranks,
                                         const Environment& environment);

}  // namespace tessera::train
