#include "tessera/formats/gguf_dequantize.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "tessera/core/dtype.h"
#include "tessera/core/error.h"

// Each function turns one block into floats. Products and sums are rounded one by one, as NumPy does it: the build switches off fused multiply-add
// for this file.
namespace tessera::formats {
namespace {

using Byte = std::uint8_t;

constexpr std::size_t kSmallBlock = 32;

float half_at(const Byte* bytes) {
  std::uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return half_to_float(bits);
}

void f32_block(const Byte* block, float* out) { std::memcpy(out, block, sizeof(float)); }

void f16_block(const Byte* block, float* out) { *out = half_at(block); }

void bf16_block(const Byte* block, float* out) {
  std::uint16_t bits;
  std::memcpy(&bits, block, sizeof(bits));
  *out = bfloat16_to_float(bits);
}

/// 16 bytes hold 32 nibbles: elements 0–15 in the low halves, 16–31 in the high halves.
int nibble(const Byte* quants, std::size_t element) { return element < 16 ? quants[element] & 0xF : quants[element - 16] >> 4; }

int fifth_bit(const Byte* high_bits, std::size_t element) { return ((high_bits[element / 8] >> (element % 8)) & 1) << 4; }

void q4_0_block(const Byte* block, float* out) {  // scale, 32 nibbles
  const float scale = half_at(block);
  for (std::size_t i = 0; i < kSmallBlock; ++i) out[i] = scale * static_cast<float>(nibble(block + 2, i) - 8);
}

void q4_1_block(const Byte* block, float* out) {  // scale, minimum, 32 nibbles
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (std::size_t i = 0; i < kSmallBlock; ++i) out[i] = scale * static_cast<float>(nibble(block + 4, i)) + minimum;
}

void q5_0_block(const Byte* block, float* out) {  // scale, 32 fifth bits, 32 nibbles
  const float scale = half_at(block);
  for (std::size_t i = 0; i < kSmallBlock; ++i) out[i] = scale * static_cast<float>((nibble(block + 6, i) | fifth_bit(block + 2, i)) - 16);
}

void q5_1_block(const Byte* block, float* out) {  // scale, minimum, 32 fifth bits, 32 nibbles
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (std::size_t i = 0; i < kSmallBlock; ++i) out[i] = scale * static_cast<float>(nibble(block + 8, i) | fifth_bit(block + 4, i)) + minimum;
}

void q8_0_block(const Byte* block, float* out) {  // scale, 32 signed bytes
  const float scale = half_at(block);
  for (std::size_t i = 0; i < kSmallBlock; ++i) out[i] = scale * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
}

struct ScaleAndMinimum {
  float scale;
  float minimum;
};

/// Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima in 12 bytes. The first four of each are the low 6 bits of bytes 0–3 and 4–7; the last
/// four have their low 4 bits in bytes 8–11 (scale low half, minimum high half) and their top 2 bits on top of bytes 0–3 and 4–7.
ScaleAndMinimum k_scale(const Byte* block, std::size_t group) {
  const float super_scale = half_at(block);
  const float super_minimum = half_at(block + 2);
  const Byte* packed = block + 4;
  int scale = 0;
  int minimum = 0;
  if (group < 4) {
    scale = packed[group] & 0x3F;
    minimum = packed[group + 4] & 0x3F;
  } else {
    scale = (packed[group + 4] & 0xF) | ((packed[group - 4] >> 2) & 0x30);
    minimum = (packed[group + 4] >> 4) | ((packed[group] >> 2) & 0x30);
  }
  return {super_scale * static_cast<float>(scale), super_minimum * static_cast<float>(minimum)};
}

/// 32 bytes serve two groups of 32: the low halves the even one, the high halves the odd one.
int k_nibble(const Byte* quants, std::size_t group, std::size_t i) { return (quants[group / 2 * 32 + i] >> (group % 2 * 4)) & 0xF; }

void q4_k_block(const Byte* block, float* out) {  // super scale and minimum, 12 bytes of scales, 256 nibbles
  for (std::size_t group = 0; group < 8; ++group) {
    const auto [scale, minimum] = k_scale(block, group);
    for (std::size_t i = 0; i < 32; ++i) out[group * 32 + i] = scale * static_cast<float>(k_nibble(block + 16, group, i)) - minimum;
  }
}

void q5_k_block(const Byte* block, float* out) {  // as Q4_K, with 256 fifth bits before the nibbles: bit `group` of byte i
  for (std::size_t group = 0; group < 8; ++group) {
    const auto [scale, minimum] = k_scale(block, group);
    for (std::size_t i = 0; i < 32; ++i) {
      const int high = ((block[16 + i] >> group) & 1) << 4;
      out[group * 32 + i] = scale * static_cast<float>(k_nibble(block + 48, group, i) | high) - minimum;
    }
  }
}

void q6_k_block(const Byte* block, float* out) {  // 256 low nibbles, 256 × 2 high bits, 16 signed scales, super scale
  const Byte* low = block;
  const Byte* high = block + 128;
  const Byte* scales = block + 192;
  const float super_scale = half_at(block + 208);
  for (std::size_t group = 0; group < 8; ++group) {
    const std::size_t half = group / 4;    // 128 elements share 64 low and 32 high bytes
    const std::size_t within = group % 4;  // groups 0 and 1 take the low nibbles, 2 and 3 the high ones
    for (std::size_t i = 0; i < 32; ++i) {
      const int low_bits = (low[half * 64 + within % 2 * 32 + i] >> (within / 2 * 4)) & 0xF;
      const int high_bits = ((high[half * 32 + i] >> (within * 2)) & 3) << 4;
      const float scale = super_scale * static_cast<float>(static_cast<std::int8_t>(scales[group * 2 + i / 16]));
      out[group * 32 + i] = scale * static_cast<float>((low_bits | high_bits) - 32);
    }
  }
}

using BlockFunction = void (*)(const Byte*, float*);

BlockFunction block_function(GgmlType type) {
  switch (type) {
    case GgmlType::F32:
      return f32_block;
    case GgmlType::F16:
      return f16_block;
    case GgmlType::BF16:
      return bf16_block;
    case GgmlType::Q4_0:
      return q4_0_block;
    case GgmlType::Q4_1:
      return q4_1_block;
    case GgmlType::Q5_0:
      return q5_0_block;
    case GgmlType::Q5_1:
      return q5_1_block;
    case GgmlType::Q8_0:
      return q8_0_block;
    case GgmlType::Q4_K:
      return q4_k_block;
    case GgmlType::Q5_K:
      return q5_k_block;
    case GgmlType::Q6_K:
      return q6_k_block;
  }
  return nullptr;
}

}  // namespace

bool can_dequantize(GgmlType type) { return block_function(type) != nullptr; }

void dequantize(GgmlType type, std::span<const std::byte> blocks, std::span<float> out) {
  const BlockFunction function = block_function(type);
  TESSERA_ASSERT(function != nullptr, "a type that cannot be dequantised");
  const GgmlTypeInfo info = *ggml_type_info(type);
  TESSERA_ASSERT(out.size() % info.block_elements == 0 && blocks.size() == out.size() / info.block_elements * info.block_bytes, "not whole blocks");
  const auto* block = reinterpret_cast<const Byte*>(blocks.data());
  for (std::size_t element = 0; element < out.size(); element += info.block_elements, block += info.block_bytes)
    function(block, out.data() + element);
}

}  // namespace tessera::formats
