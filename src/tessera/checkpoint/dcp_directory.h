#pragma once

#include <filesystem>
#include <vector>

#include "tessera/checkpoint/consolidate.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/formats/safetensors.h"

/// Distributed checkpoints of PyTorch, read for conversion only.
namespace tessera::checkpoint {

/// The weights of a directory that torch.distributed.checkpoint's HuggingFaceStorageWriter wrote (save_distributed), as NeMo AutoModel does:
/// safetensors files whose headers hold DCP_SHARDING_INFO (shard.h).
struct DcpDirectory {
  std::filesystem::path path;         ///< the folder of the files
  std::filesystem::path model_files;  ///< the folder of config.json: `path`, its .hf_metadata, or the folder above
  TensorRecords model;                ///< without hashes: there are none
};

/// Adds the boxes of one such file to what others hold. UserError at `path` where its header is malformed or contradicts theirs.
void add_dcp_file(TensorRecords& records, const std::vector<formats::TensorInfo>& tensors, const formats::StringMap& metadata,
                  const std::filesystem::path& path);

/// Whether `path`, or its folder model/ or sharded/, holds such files, or a .metadata pickle.
bool is_dcp_directory(const std::filesystem::path& path);
/// UserError for a .metadata pickle, with the remedy; for a missing config.json; for files that are malformed, or whose boxes overlap or leave holes.
DcpDirectory read_dcp_directory(const std::filesystem::path& path);

}  // namespace tessera::checkpoint
