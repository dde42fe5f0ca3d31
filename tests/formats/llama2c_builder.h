#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace tessera::test {

/// A llama2.c checkpoint: the seven header numbers, then floats that count up from 0.
inline std::string llama2c_file(const std::array<std::int32_t, 7>& header, std::size_t num_floats) {
  std::string file(sizeof(header) + num_floats * sizeof(float), '\0');
  std::memcpy(file.data(), header.data(), sizeof(header));
  for (std::size_t i = 0; i < num_floats; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(file.data() + sizeof(header) + i * sizeof(float), &value, sizeof(value));
  }
  return file;
}

/// hidden 8, feed-forward 3, 2 layers, 2 heads, 1 key/value head, vocabulary 5, context 6; `tied` or with its own head.
inline std::string small_llama2c_file(bool tied) {
  // Embedding; per layer two norms, q and o, k and v, three of the feed-forward; final norm; rope tables; head.
  const std::size_t floats = 5 * 8 + 2 * (2 * 8 + 2 * 64 + 2 * 4 * 8 + 3 * 24) + 8 + 6 * 4 + (tied ? 0 : 40);
  return llama2c_file({8, 3, 2, 2, 1, tied ? 5 : -5, 6}, floats);
}

}  // namespace tessera::test
