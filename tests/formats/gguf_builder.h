#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::test {

/// Builds a GGUF file in memory, correct or wrong in any one place: tests set fields before `build`.
class GgufBuilder {
 public:
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t num_tensors_claimed = UINT64_MAX;  ///< UINT64_MAX: the true number
  std::uint64_t alignment = 32;

  /// `type` is the number of a value type, `payload` its bytes.
  void add_raw(std::string_view key, std::uint32_t type, const std::string& payload) {
    metadata_ += text(key) + bytes(type) + payload;
    ++num_values_;
  }
  void add_string(std::string_view key, std::string_view value) { add_raw(key, 8, text(value)); }
  void add_u32(std::string_view key, std::uint32_t value) { add_raw(key, 4, bytes(value)); }
  void add_strings(std::string_view key, const std::vector<std::string>& values) {
    std::string payload = bytes(std::uint32_t{8}) + bytes(std::uint64_t{values.size()});
    for (const std::string& value : values) payload += text(value);
    add_raw(key, 9, payload);
  }

  /// `dimensions` as in the file: fastest first. `offset` of UINT64_MAX: after the tensors so far.
  void add_tensor(std::string_view name, std::uint32_t type, const std::vector<std::uint64_t>& dimensions, const std::string& data,
                  std::uint64_t offset = UINT64_MAX) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
    infos_ += text(name) + bytes(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t dimension : dimensions) infos_ += bytes(dimension);
    infos_ += bytes(type) + bytes(offset == UINT64_MAX ? std::uint64_t{data_.size()} : offset);
    data_ += data;
    ++num_tensors_;
  }

  std::string build() const {
    std::string file = magic + bytes(version) + bytes(num_tensors_claimed == UINT64_MAX ? num_tensors_ : num_tensors_claimed) + bytes(num_values_) +
                       metadata_ + infos_;
    if (!data_.empty()) file.resize((file.size() + alignment - 1) / alignment * alignment, '\0');
    return file + data_;
  }

  template <class Value>
  static std::string bytes(Value value) {
    std::string result(sizeof(value), '\0');
    std::memcpy(result.data(), &value, sizeof(value));
    return result;
  }
  static std::string text(std::string_view value) { return bytes(std::uint64_t{value.size()}) + std::string(value); }

 private:
  std::uint64_t num_values_ = 0;
  std::uint64_t num_tensors_ = 0;
  std::string metadata_;
  std::string infos_;
  std::string data_;
};

}  // namespace tessera::test
