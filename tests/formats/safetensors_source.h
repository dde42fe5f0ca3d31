#pragma once

#include <filesystem>
#include <memory>

#include "support/support.h"
#include "tessera/formats/tensor_source.h"

namespace tessera::formats {

/// A safetensors file of any name, read as the one file of a Hugging Face directory.
inline std::unique_ptr<TensorSource> open_safetensors_source(const std::filesystem::path& file) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_symlink(std::filesystem::absolute(file), directory / "model.safetensors");
  return open_huggingface_source(directory.path());
}

}  // namespace tessera::formats
