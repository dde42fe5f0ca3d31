#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tessera/core/error.h"

namespace tessera::formats {

/// Reads little-endian values from the front of a span; a read past the end is a UserError that names the file and offset.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  template <class Value>
  Value read() {
    static_assert(std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>);
    Value value;
    std::memcpy(&value, take(sizeof(Value)).data(), sizeof(Value));
    return value;
  }

  std::string_view read_text(std::uint64_t size) {
    const std::span<const std::byte> bytes = take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::span<const std::byte> take(std::uint64_t size) {
    if (size > remaining()) refuse("the file ends where " + std::to_string(size) + " more bytes are needed, at offset " + std::to_string(position_));
    const auto taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  const std::string& where() const { return where_; }
  [[noreturn]] void refuse(std::string what, std::string fix = "the file is truncated or damaged: download or copy it again") const {
    throw UserError({where_, std::move(what), "", std::move(fix)});
  }

 private:
  std::span<const std::byte> bytes_;
  std::string where_;
  std::size_t position_ = 0;
};

}  // namespace tessera::formats
