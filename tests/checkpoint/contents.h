#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/box.h"
#include "tessera/formats/tensor_source.h"

/// What tests compare of files and of memory.
namespace tessera::test {

/// The elements of one tensor as float32, in row order.
inline std::vector<float> values_of(const formats::TensorSource& source, const std::string& name) {
  std::vector<float> values(formats::num_elements(source.find(name)->shape));
  source.read(name, DType::F32, std::as_writable_bytes(std::span(values)));
  return values;
}

/// The bytes of a box, in row order.
inline std::vector<std::byte> bytes_of(const checkpoint::TensorBox& box) {
  std::vector<std::byte> bytes;
  checkpoint::stream_bytes(box, [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

}  // namespace tessera::test
