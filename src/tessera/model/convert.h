#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "tessera/core/file.h"
#include "tessera/core/json.h"
#include "tessera/formats/huggingface.h"

namespace tessera::model {

enum class ModelFormat : std::uint8_t { HuggingFace, Gguf, Llama2c };

/// A directory with config.json, a file that begins with GGUF's magic, or a llama2.c checkpoint (by its .bin suffix). UserError for anything else.
ModelFormat detect_model_format(const std::filesystem::path& source);

struct ConvertRequest {
  std::filesystem::path source;
  std::filesystem::path destination;  ///< must not exist
  std::optional<DType> dtype;         ///< F32, BF16 or F16; absent: whatever holds the source's values without loss
  std::uint64_t max_shard_size = formats::kDefaultMaxShardSize;
  std::map<std::string, std::string> files;  ///< more files by name: the tokenizer's, from the layer that knows it
};

struct ConvertResult {
  Json config;
  DType dtype = DType::F32;
  std::int64_t num_tensors = 0;
  std::uint64_t num_bytes = 0;
};

/// Writes a Hugging Face directory: weights streamed through a few MiB of memory, config.json, and from another Hugging Face directory its tokenizer
/// files and generation_config.json. Everything is written aside, synced and renamed, so that the destination is whole or absent. UserError for a
/// source that cannot be read or an existing destination, Failure when writing fails.
ConvertResult convert_model(FileOperations& operations, const ConvertRequest& request);

}  // namespace tessera::model
