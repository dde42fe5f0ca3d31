#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tessera/checkpoint/files.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/config/sections/output.h"
#include "tessera/core/error.h"

/// Whether a checkpoint's files hold what its manifest says.
namespace tessera::checkpoint {

using Verify = config::CheckpointVerify;

/// Some of a manifest's files.
using WantFile = std::function<bool(const std::string& file)>;
/// Files of model/consolidated/: a copy of the weights for other programs.
bool is_consolidated(const std::string& file);
/// The files that one of `num_ranks` ranks checks when they share out those `wanted` accepts: each about as many bytes.
WantFile share_of_rank(const Manifest& manifest, const WantFile& wanted, int rank, int num_ranks);

/// One problem for each file that is missing, has another size or another hash; a damaged tensor is named. Only files `wanted` accepts (all when
/// empty).
std::vector<Problem> verify_files(const std::filesystem::path& checkpoint, const Manifest& manifest, Verify verify, const WantFile& wanted = {},
                                  const Progress& progress = {});

/// Before files are copied into something new with hashes of its own: UserError with every problem of those `wanted` accepts. Damage that is copied
/// cannot be found any more; so what is no shard, and small, is hashed whatever `verify` says. `progress` is of what is hashed.
void refuse_damage(const std::filesystem::path& checkpoint, const Manifest& manifest, Verify verify, const WantFile& wanted,
                   const Progress& progress = {});
/// How many bytes it hashes.
std::uint64_t bytes_to_hash(const Manifest& manifest, Verify verify, const WantFile& wanted);

}  // namespace tessera::checkpoint
