#pragma once

#include <filesystem>
#include <memory>

#include "tessera/core/json.h"
#include "tessera/formats/tensor_source.h"

namespace tessera::model {

/// A model in another format, seen as a Hugging Face checkpoint.
struct ImportedModel {
  Json config;  ///< config.json; its torch_dtype is the one that holds the file's values without loss
  std::unique_ptr<formats::TensorSource> weights;
};

/// A GGUF file (architectures: see gguf_config.h): tensors renamed, dequantised, in Hugging Face's order of rows (llama's q and k), orientation
/// (gpt2) and values (gemma's norms). UserError listing what is missing, surplus or misshapen.
ImportedModel import_gguf(const std::filesystem::path& path);

/// A llama2.c checkpoint.
ImportedModel import_llama2c(const std::filesystem::path& path);

}  // namespace tessera::model
