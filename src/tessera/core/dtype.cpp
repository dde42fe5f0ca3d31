#include "tessera/core/dtype.h"

#include <array>
#include <bit>
#include <cmath>

namespace tessera {
namespace {

struct DTypeInfo {
  DType dtype;
  std::size_t size;
  std::string_view safetensors;
  std::string_view torch;
};

constexpr std::array<DTypeInfo, 15> kTypes{{
    {DType::F64, 8, "F64", "float64"},
    {DType::F32, 4, "F32", "float32"},
    {DType::F16, 2, "F16", "float16"},
    {DType::BF16, 2, "BF16", "bfloat16"},
    {DType::F8_E4M3, 1, "F8_E4M3", "float8_e4m3fn"},
    {DType::F8_E5M2, 1, "F8_E5M2", "float8_e5m2"},
    {DType::I64, 8, "I64", "int64"},
    {DType::I32, 4, "I32", "int32"},
    {DType::I16, 2, "I16", "int16"},
    {DType::I8, 1, "I8", "int8"},
    {DType::U64, 8, "U64", "uint64"},
    {DType::U32, 4, "U32", "uint32"},
    {DType::U16, 2, "U16", "uint16"},
    {DType::U8, 1, "U8", "uint8"},
    {DType::Bool, 1, "BOOL", "bool"},
}};

struct Alias {
  std::string_view name;
  DType dtype;
};
constexpr std::array<Alias, 11> kAliases{{
    {"fp64", DType::F64},
    {"double", DType::F64},
    {"fp32", DType::F32},
    {"f32", DType::F32},
    {"float", DType::F32},
    {"fp16", DType::F16},
    {"f16", DType::F16},
    {"half", DType::F16},
    {"bf16", DType::BF16},
    {"fp8_e4m3", DType::F8_E4M3},
    {"long", DType::I64},
}};

const DTypeInfo& info(DType dtype) { return kTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t size_of(DType dtype) { return info(dtype).size; }
std::string_view to_string(DType dtype) { return info(dtype).safetensors; }
std::string_view torch_name(DType dtype) { return info(dtype).torch; }

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const DTypeInfo& type : kTypes)
    if (type.safetensors == name) return type.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_from_torch(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (const DTypeInfo& type : kTypes)
    if (type.torch == name) return type.dtype;
  for (const Alias& alias : kAliases)
    if (alias.name == name) return alias.dtype;
  return std::nullopt;
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1F;
  const std::uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  return sign != 0 ? -magnitude : magnitude;
}

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00;
  if (magnitude >= 65520.0F) return sign | 0x7C00;
  if (magnitude < 6.103515625e-05F)  // subnormal: the spacing is 2^-24
    return sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  const std::uint32_t rest = std::bit_cast<std::uint32_t>(magnitude) - (112U << 23);
  return sign | static_cast<std::uint16_t>((rest + 0xFFF + ((rest >> 13) & 1)) >> 13);
}

}  // namespace tessera
