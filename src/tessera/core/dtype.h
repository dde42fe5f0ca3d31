#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

/// Element types that checkpoints hold. Names are those of the safetensors format ("F32", "BF16", …).
enum class DType : std::uint8_t { F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U64, U32, U16, U8, Bool };

/// Bytes per element.
std::size_t size_of(DType dtype);
/// The safetensors name.
std::string_view to_string(DType dtype);
std::optional<DType> dtype_from_safetensors(std::string_view name);
/// Accepts the spellings recipes and config.json use: "float32", "torch.float32", "fp32", "bf16", "bfloat16", …
std::optional<DType> dtype_from_torch(std::string_view name);
/// "float32", "bfloat16", …: as config.json's torch_dtype writes it.
std::string_view torch_name(DType dtype);

/// IEEE 754 half and bfloat16 conversions, round to nearest even; NaN stays NaN.
float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);

// Inline and without branches, so that loops over them become vector code.
constexpr float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
/// A NaN becomes the quiet one of its sign and of what is left of its payload.
constexpr std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
}

}  // namespace tessera
