#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "tessera/checkpoint/files.h"
#include "tessera/checkpoint/state.h"
#include "tessera/checkpoint/verify.h"
#include "tessera/core/file.h"
#include "tessera/core/json.h"

namespace tessera::checkpoint {

/// Another split of the same state.
struct ReshardLayout {
  std::int64_t num_ranks = 1;
  std::function<Pieces(std::int64_t rank)> owned_pieces;  ///< of all ranks: every tensor once
  Json description = Json::object();                      ///< for readers: {"world_size": 4, …}
};

struct ReshardOptions {
  Verify verify = Verify::Full;  ///< of what is read (refuse_damage): the new files get hashes of their own
  Progress progress = {};        ///< of the bytes hashed first, then of those written
};
/// How many bytes `progress` will be told of.
std::uint64_t bytes_to_reshard(const Manifest& manifest, Verify verify);

/// Writes a checkpoint of the same state as that number of ranks would have saved it. Everything but the shards is copied; model/consolidated/ is
/// left out. `output` appears when it is complete. Streams: no more than one box of a tensor is in memory. UserError when `checkpoint` is not a
/// complete checkpoint or damaged, `output` exists, or the layout is of another model; Failure when writing fails.
void reshard(FileOperations& operations, const std::filesystem::path& checkpoint, const std::filesystem::path& output, const ReshardLayout& layout,
             const ReshardOptions& options = {});

}  // namespace tessera::checkpoint
