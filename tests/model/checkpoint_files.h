#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/file.h"
#include "tessera/formats/convert.h"
#include "tessera/formats/safetensors.h"
#include "tessera/formats/tensor_source.h"

namespace tessera::test {

/// A checkpoint tensor in memory, as floats.
struct FloatTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
using FloatTensors = std::map<std::string, FloatTensor>;

/// Everything in model.safetensors of a directory.
inline FloatTensors read_floats(const formats::TensorSource& source) {
  FloatTensors tensors;
  for (const auto& spec : source.tensors()) {
    FloatTensor& tensor = tensors[spec.name];
    tensor.shape = spec.shape;
    tensor.values.resize(formats::num_elements(spec.shape));
    source.read(spec.name, DType::F32, std::as_writable_bytes(std::span(tensor.values)));
  }
  return tensors;
}
inline FloatTensors read_floats(const std::filesystem::path& directory) { return read_floats(*formats::open_huggingface_source(directory)); }

/// Writes model.safetensors into an existing directory.
inline void write_floats(const std::filesystem::path& directory, const FloatTensors& tensors, DType dtype = DType::F32) {
  std::vector<formats::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, dtype, tensor.shape});
  const auto operations = posix_file_operations();
  formats::SafetensorsWriter writer(*operations, directory / "model.safetensors", specs);
  for (const auto& info : writer.tensors()) {
    const auto& values = tensors.at(info.name).values;
    std::vector<std::byte> bytes(values.size() * size_of(dtype));
    formats::convert_elements(DType::F32, std::as_bytes(std::span(values)).data(), dtype, bytes.data(), values.size());
    writer.write(info.name, bytes);
  }
  writer.finish();
}

}  // namespace tessera::test
