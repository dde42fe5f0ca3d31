#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/core/file.h"

/// The GGUF container, versions 2 and 3, little-endian. Specification: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
namespace tessera::formats {

/// Element types of GGML by their numbers in the file. Only those named here can be read as floats (gguf_dequantize.h); of the rest the name and size
/// are known.
enum class GgmlType : std::uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  BF16 = 30
};

/// A block is the unit of quantisation: a number of elements in a number of bytes.
struct GgmlTypeInfo {
  std::string_view name;
  std::uint64_t block_elements;
  std::uint64_t block_bytes;
};
/// nullopt for numbers the format does not define.
std::optional<GgmlTypeInfo> ggml_type_info(GgmlType type);

/// A metadata value. Integers of all widths are widened to 64 bits, float32 to double.
struct GgufValue {
  std::variant<std::uint64_t, std::int64_t, double, bool, std::string, std::vector<GgufValue>> value;
};

/// The remedy for contents that cannot be used.
inline constexpr const char* kConvertGgufAgain = "convert the model again with a current llama.cpp";

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::F32;
  std::vector<std::int64_t> shape;  ///< row-major (the file lists dimensions the other way round); rows are whole blocks
  std::uint64_t begin = 0;          ///< bytes from the start of the data section
  std::uint64_t num_bytes = 0;
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  ///< as listed in the file
  std::uint64_t alignment = 32;
  std::uint64_t data_begin = 0;  ///< offset of the data section in the file
};

/// Reads and checks everything before the data: magic, version, counts, strings and arrays within the file, unique keys and names, known types,
/// aligned tensors within the file that do not overlap. Throws UserError that starts with `where`. `file` must be all bytes of the file.
GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& where);

/// A GGUF file, mapped. Const members may be called from several threads.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const GgufHeader& header() const { return header_; }
  const std::vector<GgufTensor>& tensors() const { return header_.tensors; }
  const GgufTensor* find(std::string_view name) const;
  std::span<const std::byte> bytes(const GgufTensor& tensor) const;
  /// Lets bytes [begin, end) of the data section leave memory.
  void drop(std::uint64_t begin, std::uint64_t end) const;

  // Metadata by key: nullopt when the key is absent, UserError when its value is of another kind.
  std::optional<std::string> find_string(std::string_view key) const;
  std::optional<bool> find_bool(std::string_view key) const;
  std::optional<std::int64_t> find_integer(std::string_view key) const;  ///< any integer type that fits
  std::optional<double> find_number(std::string_view key) const;         ///< integer or float
  std::optional<std::vector<std::string>> find_strings(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> find_integers(std::string_view key) const;
  std::optional<std::vector<double>> find_numbers(std::string_view key) const;

 private:
  MappedFile file_;
  GgufHeader header_;
};

}  // namespace tessera::formats
