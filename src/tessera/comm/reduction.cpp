#include "tessera/comm/reduction.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "tessera/core/error.h"

namespace tessera::comm {
namespace {

/// Elements that are reduced at once: the accumulators stay in the first-level cache.
constexpr std::int64_t kBlock = 1024;

struct Bfloat16 {
  std::uint16_t bits;
};
struct Half {
  std::uint16_t bits;
};

float widen(Bfloat16 value) { return bfloat16_to_float(value.bits); }
float widen(Half value) { return half_to_float(value.bits); }
float widen(float value) { return value; }
double widen(double value) { return value; }

void narrow(float value, Bfloat16& result) { result.bits = float_to_bfloat16(value); }
void narrow(float value, Half& result) { result.bits = float_to_half(value); }
void narrow(float value, float& result) { result = value; }
void narrow(double value, double& result) { result = value; }
template <class T>
void narrow(double value, T& result) {
  narrow(static_cast<float>(value), result);
}
void narrow(float value, double& result) { result = value; }

/// Calls fn(T{}) with the type that holds a floating-point dtype's elements.
template <class Function>
void with_floating(DType dtype, const Function& fn) {
  switch (dtype) {
    case DType::F64:
      return fn(double{});
    case DType::F32:
      return fn(float{});
    case DType::BF16:
      return fn(Bfloat16{});
    case DType::F16:
      return fn(Half{});
    default:
      TESSERA_ASSERT(false, "not a floating-point type: " + std::string(to_string(dtype)));
  }
}

template <class Accumulator>
void load(const Part& part, std::int64_t first, std::int64_t count, Accumulator* result) {
  with_floating(part.dtype, [&]<class T>(T) {
    const T* from = static_cast<const T*>(part.data) + first;
    for (std::int64_t i = 0; i < count; ++i) result[i] = static_cast<Accumulator>(widen(from[i]));
  });
}

template <class Accumulator>
void store(const Accumulator* values, std::int64_t first, std::int64_t count, void* output, DType dtype) {
  with_floating(dtype, [&]<class T>(T) {
    T* to = static_cast<T*>(output) + first;
    for (std::int64_t i = 0; i < count; ++i) narrow(values[i], to[i]);
  });
}

template <class T>
bool is_nan(T value) {
  return value != value;  // NOLINT: NaN alone is not itself
}

template <class T>
void combine(ReduceOperation operation, std::int64_t count, const T* value, T* sum) {
  switch (operation) {
    case ReduceOperation::Sum:
      for (std::int64_t i = 0; i < count; ++i) sum[i] = static_cast<T>(sum[i] + value[i]);
      break;
    case ReduceOperation::Max:
      for (std::int64_t i = 0; i < count; ++i) sum[i] = value[i] > sum[i] || is_nan(value[i]) ? value[i] : sum[i];
      break;
    case ReduceOperation::Min:
      for (std::int64_t i = 0; i < count; ++i) sum[i] = value[i] < sum[i] || is_nan(value[i]) ? value[i] : sum[i];
      break;
  }
}

/// Block by block, so that every part is read once and the output written once.
template <class Accumulator>
void reduce_floating(std::span<const Part> parts, ReduceOperation operation, void* output, DType dtype, std::int64_t count) {
  std::array<Accumulator, kBlock> sum, value;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t size = std::min(kBlock, count - first);
    load(parts[0], first, size, sum.data());
    for (const Part& part : parts.subspan(1)) {
      load(part, first, size, value.data());
      combine(operation, size, value.data(), sum.data());
    }
    store(sum.data(), first, size, output, dtype);
  }
}

/// T is unsigned for sums, which wrap around.
template <class T>
void reduce_integers(std::span<const Part> parts, ReduceOperation operation, void* output, std::int64_t count) {
  std::array<T, kBlock> sum;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t size = std::min(kBlock, count - first);
    std::copy_n(static_cast<const T*>(parts[0].data) + first, size, sum.data());
    for (const Part& part : parts.subspan(1)) combine(operation, size, static_cast<const T*>(part.data) + first, sum.data());
    std::copy_n(sum.data(), size, static_cast<T*>(output) + first);
  }
}

void reduce_integers(std::span<const Part> parts, ReduceOperation operation, void* output, DType dtype, std::int64_t count) {
  const bool sum = operation == ReduceOperation::Sum;
  switch (dtype) {
    case DType::I32:
      return sum ? reduce_integers<std::uint32_t>(parts, operation, output, count) : reduce_integers<std::int32_t>(parts, operation, output, count);
    case DType::I64:
      return sum ? reduce_integers<std::uint64_t>(parts, operation, output, count) : reduce_integers<std::int64_t>(parts, operation, output, count);
    case DType::U8:
      return reduce_integers<std::uint8_t>(parts, operation, output, count);
    default:
      TESSERA_ASSERT(false, "not a type that can be reduced: " + std::string(to_string(dtype)));
  }
}

}  // namespace

bool is_floating(DType dtype) { return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16; }

bool is_reducible(DType dtype) { return is_floating(dtype) || dtype == DType::I32 || dtype == DType::I64 || dtype == DType::U8; }

void reduce_parts(std::span<const Part> parts, ReduceOperation operation, void* output, DType output_dtype, std::int64_t count) {
  if (!is_floating(output_dtype)) return reduce_integers(parts, operation, output, output_dtype, count);
  const bool wide = output_dtype == DType::F64 || std::ranges::any_of(parts, [](const Part& part) { return part.dtype == DType::F64; });
  if (wide) {
    reduce_floating<double>(parts, operation, output, output_dtype, count);
  } else {
    reduce_floating<float>(parts, operation, output, output_dtype, count);
  }
}

void round_elements(const void* input, DType input_dtype, void* output, DType output_dtype, std::int64_t count) {
  if (input_dtype == output_dtype) {
    if (input != output && count > 0) std::memmove(output, input, static_cast<std::size_t>(count) * size_of(input_dtype));
    return;
  }
  const Part part{input, input_dtype};
  reduce_parts({&part, 1}, ReduceOperation::Sum, output, output_dtype, count);
}

}  // namespace tessera::comm
