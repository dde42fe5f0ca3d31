#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "tessera/checkpoint/manifest.h"
#include "tessera/core/dtype.h"
#include "tessera/core/file.h"
#include "tessera/formats/tensor_source.h"

/// A checkpoint's weights as other programs want them.
namespace tessera::checkpoint {

struct ConsolidateOptions {
  std::uint64_t max_shard_size = 5'000'000'000;  ///< bytes of a file
  std::optional<DType> dtype = {};               ///< absent: as saved
};

/// The weights of model/ under their Hugging Face names, assembled from whatever boxes they were saved in: for conversion and generation.
/// UserError when `checkpoint` is not a complete checkpoint.
std::unique_ptr<formats::TensorSource> open_checkpoint_source(const std::filesystem::path& checkpoint);

/// Writes a Hugging Face directory (weights in shards, index, config.json, tokenizer files) that is complete when `output` appears. Streams: no more
/// than some MiB are in memory. UserError when `checkpoint` is not complete or `output` exists; Failure when writing fails.
void consolidate(FileOperations& operations, const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                 const ConsolidateOptions& options);

/// The same into a directory that exists and is empty, for a checkpoint whose manifest is not written yet. Files are synced, the directory is not.
void write_consolidated(FileOperations& operations, const std::filesystem::path& checkpoint, const TensorRecords& model,
                        const std::filesystem::path& output, const ConsolidateOptions& options);

/// The text of config.json with "torch_dtype" (or "dtype") set to `dtype`; everything else stays as it is.
std::string config_with_dtype(const std::string& config_json, DType dtype, const std::string& where);

}  // namespace tessera::checkpoint
