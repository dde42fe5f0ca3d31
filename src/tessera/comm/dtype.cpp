#include "tessera/comm/dtype.h"

#include <fmt/format.h>

#include "tessera/core/error.h"

namespace tessera::comm {

DType to_dtype(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return DType::F64;
    case at::kFloat:
      return DType::F32;
    case at::kHalf:
      return DType::F16;
    case at::kBFloat16:
      return DType::BF16;
    case at::kFloat8_e4m3fn:
      return DType::F8_E4M3;
    case at::kFloat8_e5m2:
      return DType::F8_E5M2;
    case at::kLong:
      return DType::I64;
    case at::kInt:
      return DType::I32;
    case at::kShort:
      return DType::I16;
    case at::kChar:
      return DType::I8;
    case at::kByte:
      return DType::U8;
    case at::kBool:
      return DType::Bool;
    default:
      throw Failure({"", fmt::format("tensors of {} are not sent between ranks", c10::toString(type)), "", ""});
  }
}

}  // namespace tessera::comm
