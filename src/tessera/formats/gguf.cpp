#include "tessera/formats/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/formats/byte_reader.h"
#include "tessera/formats/tensor_spec.h"

namespace tessera::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and are read in place");

enum class ValueType : std::uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

constexpr std::uint32_t kGgufMagic = 0x46554747;  // "GGUF"
constexpr std::string_view kMetadataAlignment = "general.alignment";
// Far above what real files hold; they keep a damaged count from filling memory.
constexpr std::uint64_t kMaxTensors = 1'000'000;
constexpr std::uint64_t kMaxMetadataValues = 50'000'000;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr int kMaxArrayDepth = 4;
constexpr std::uint64_t kMaxAlignment = 1 << 20;

struct NumberedType {
  std::uint32_t number;
  GgmlTypeInfo info;
};
constexpr std::array kTypes{
    NumberedType{0, {"F32", 1, 4}},         NumberedType{1, {"F16", 1, 2}},         NumberedType{2, {"Q4_0", 32, 18}},
    NumberedType{3, {"Q4_1", 32, 20}},      NumberedType{6, {"Q5_0", 32, 22}},      NumberedType{7, {"Q5_1", 32, 24}},
    NumberedType{8, {"Q8_0", 32, 34}},      NumberedType{9, {"Q8_1", 32, 40}},      NumberedType{10, {"Q2_K", 256, 84}},
    NumberedType{11, {"Q3_K", 256, 110}},   NumberedType{12, {"Q4_K", 256, 144}},   NumberedType{13, {"Q5_K", 256, 176}},
    NumberedType{14, {"Q6_K", 256, 210}},   NumberedType{15, {"Q8_K", 256, 292}},   NumberedType{16, {"IQ2_XXS", 256, 66}},
    NumberedType{17, {"IQ2_XS", 256, 74}},  NumberedType{18, {"IQ3_XXS", 256, 98}}, NumberedType{19, {"IQ1_S", 256, 50}},
    NumberedType{20, {"IQ4_NL", 32, 18}},   NumberedType{21, {"IQ3_S", 256, 110}},  NumberedType{22, {"IQ2_S", 256, 82}},
    NumberedType{23, {"IQ4_XS", 256, 136}}, NumberedType{24, {"I8", 1, 1}},         NumberedType{25, {"I16", 1, 2}},
    NumberedType{26, {"I32", 1, 4}},        NumberedType{27, {"I64", 1, 8}},        NumberedType{28, {"F64", 1, 8}},
    NumberedType{29, {"IQ1_M", 256, 56}},   NumberedType{30, {"BF16", 1, 2}},       NumberedType{34, {"TQ1_0", 256, 54}},
    NumberedType{35, {"TQ2_0", 256, 66}},   NumberedType{39, {"MXFP4", 32, 17}},    NumberedType{40, {"NVFP4", 64, 36}},
    NumberedType{41, {"Q1_0", 128, 18}},
};

std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Reads the header's parts in file order.
class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> file, const std::string& where) : file_size_(file.size()), reader_(file, where) {}

  GgufHeader parse() {
    read_magic_and_version();
    const auto num_tensors = reader_.read<std::uint64_t>();
    const auto num_values = reader_.read<std::uint64_t>();
    if (num_tensors > kMaxTensors) reader_.refuse(fmt::format("claims {} tensors", num_tensors));
    for (std::uint64_t i = 0; i < num_values; ++i) read_metadata_entry();
    read_alignment();
    for (std::uint64_t i = 0; i < num_tensors; ++i) read_tensor();
    header_.data_begin = round_up(reader_.position(), header_.alignment);
    check_ranges();
    return std::move(header_);
  }

 private:
  void read_magic_and_version() {
    if (reader_.remaining() < 8 || reader_.read<std::uint32_t>() != kGgufMagic) reader_.refuse("not a GGUF file: it does not begin with \"GGUF\"");
    header_.version = reader_.read<std::uint32_t>();
    if ((header_.version & 0xFFFF) == 0) reader_.refuse("big-endian GGUF is not supported", "convert the model again, as little-endian");
    if (header_.version == 1) reader_.refuse("GGUF version 1 is not supported", "convert the file to version 3 with llama.cpp");
    if (header_.version > 3) reader_.refuse(fmt::format("unknown GGUF version {}", header_.version), "convert the model to version 3 with llama.cpp");
  }

  std::string read_string() { return std::string(reader_.read_text(reader_.read<std::uint64_t>())); }

  void read_metadata_entry() {
    std::string key = read_string();
    const auto type = reader_.read<std::uint32_t>();
    GgufValue value = read_value(type, key, 0);
    if (!header_.metadata.emplace(key, std::move(value)).second) reader_.refuse("metadata key \"" + key + "\" is given twice");
  }

  GgufValue read_value(std::uint32_t type, const std::string& key, int depth) {
    if (++num_values_ > kMaxMetadataValues) reader_.refuse(fmt::format("more than {} metadata values", kMaxMetadataValues));
    switch (static_cast<ValueType>(type)) {
      case ValueType::U8:
        return {static_cast<std::uint64_t>(reader_.read<std::uint8_t>())};
      case ValueType::U16:
        return {static_cast<std::uint64_t>(reader_.read<std::uint16_t>())};
      case ValueType::U32:
        return {static_cast<std::uint64_t>(reader_.read<std::uint32_t>())};
      case ValueType::U64:
        return {reader_.read<std::uint64_t>()};
      case ValueType::I8:
        return {static_cast<std::int64_t>(reader_.read<std::int8_t>())};
      case ValueType::I16:
        return {static_cast<std::int64_t>(reader_.read<std::int16_t>())};
      case ValueType::I32:
        return {static_cast<std::int64_t>(reader_.read<std::int32_t>())};
      case ValueType::I64:
        return {reader_.read<std::int64_t>()};
      case ValueType::F32:
        return {static_cast<double>(reader_.read<float>())};
      case ValueType::F64:
        return {reader_.read<double>()};
      case ValueType::Bool:
        return {read_bool(key)};
      case ValueType::String:
        return {read_string()};
      case ValueType::Array:
        return {read_array(key, depth)};
    }
    reader_.refuse(fmt::format("metadata key \"{}\": unknown value type {}", key, type));
  }

  bool read_bool(const std::string& key) {
    const auto byte = reader_.read<std::uint8_t>();
    if (byte > 1) reader_.refuse(fmt::format("metadata key \"{}\": {} is not a boolean", key, byte));
    return byte == 1;
  }

  std::vector<GgufValue> read_array(const std::string& key, int depth) {
    if (depth >= kMaxArrayDepth) reader_.refuse("metadata key \"" + key + "\": arrays nested too deeply");
    const auto type = reader_.read<std::uint32_t>();
    const auto count = reader_.read<std::uint64_t>();
    // Every element takes at least a byte, so a lie about the count cannot reserve more than a fixed multiple of the file.
    if (count > reader_.remaining())
      reader_.refuse(fmt::format("metadata key \"{}\" claims {} array elements, more than the file can hold", key, count));
    std::vector<GgufValue> values;
    values.reserve(std::min<std::uint64_t>(count, 1 << 20));
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(read_value(type, key, depth + 1));
    return values;
  }

  void read_alignment() {
    const auto found = header_.metadata.find(kMetadataAlignment);
    if (found == header_.metadata.end()) return;
    const auto* alignment = std::get_if<std::uint64_t>(&found->second.value);
    if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment > kMaxAlignment)
      reader_.refuse("general.alignment is not a power of two of reasonable size");
    header_.alignment = *alignment;
  }

  void read_tensor() {
    GgufTensor tensor;
    tensor.name = read_string();
    if (!names_.insert(tensor.name).second) refuse_tensor(tensor, "is listed twice");
    const auto num_dimensions = reader_.read<std::uint32_t>();
    if (num_dimensions > kMaxDimensions)
      refuse_tensor(tensor, fmt::format("has {} dimensions; a GGUF tensor has at most {}", num_dimensions, kMaxDimensions));
    for (std::uint32_t i = 0; i < num_dimensions; ++i) tensor.shape.push_back(read_dimension(tensor));
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    tensor.type = static_cast<GgmlType>(reader_.read<std::uint32_t>());
    tensor.begin = reader_.read<std::uint64_t>();
    tensor.num_bytes = size_of_tensor(tensor);
    if (tensor.begin % header_.alignment != 0)
      refuse_tensor(tensor, fmt::format("begins at {}, not a multiple of the alignment {}", tensor.begin, header_.alignment));
    header_.tensors.push_back(std::move(tensor));
  }

  std::int64_t read_dimension(const GgufTensor& tensor) {
    const auto dimension = reader_.read<std::uint64_t>();
    if (dimension > INT64_MAX) refuse_tensor(tensor, fmt::format("has a dimension of {}", dimension));
    return static_cast<std::int64_t>(dimension);
  }

  std::uint64_t size_of_tensor(const GgufTensor& tensor) {
    const std::optional<GgmlTypeInfo> type = ggml_type_info(tensor.type);
    if (!type) refuse_tensor(tensor, fmt::format("has the unknown type {}", static_cast<std::uint32_t>(tensor.type)));
    const std::uint64_t row = tensor.shape.empty() ? 1 : static_cast<std::uint64_t>(tensor.shape.back());
    if (row % type->block_elements != 0)
      refuse_tensor(tensor, fmt::format("has rows of {} elements, not whole blocks of {} ({})", row, type->block_elements, type->name));
    const std::optional<std::uint64_t> elements = checked_num_elements(tensor.shape);
    std::uint64_t bytes = 0;
    if (!elements || __builtin_mul_overflow(*elements / type->block_elements, type->block_bytes, &bytes))
      refuse_tensor(tensor, "has a size that overflows: " + shape_to_string(tensor.shape));
    return bytes;
  }

  void check_ranges() {
    if (!header_.tensors.empty() && header_.data_begin > file_size_)
      reader_.refuse("ends before its tensors' data", "the file is truncated: download or copy it again");
    std::vector<const GgufTensor*> sorted;
    for (const GgufTensor& tensor : header_.tensors) sorted.push_back(&tensor);
    std::sort(sorted.begin(), sorted.end(),
              [](const auto* a, const auto* b) { return std::pair(a->begin, a->num_bytes) < std::pair(b->begin, b->num_bytes); });
    const std::uint64_t data_size = file_size_ - std::min(file_size_, header_.data_begin);
    const GgufTensor* previous = nullptr;
    for (const GgufTensor* tensor : sorted) {
      if (tensor->begin > data_size || tensor->num_bytes > data_size - tensor->begin)
        reader_.refuse(
            fmt::format("tensor \"{}\" takes {} bytes from {} of the data, which has {}", tensor->name, tensor->num_bytes, tensor->begin, data_size),
            "the file is truncated: download or copy it again");
      if (previous != nullptr && tensor->begin < previous->begin + previous->num_bytes) refuse_tensor(*tensor, "overlaps \"" + previous->name + "\"");
      previous = tensor;
    }
  }

  [[noreturn]] void refuse_tensor(const GgufTensor& tensor, const std::string& what) { reader_.refuse("tensor \"" + tensor.name + "\" " + what); }

  std::uint64_t file_size_;
  ByteReader reader_;
  GgufHeader header_;
  std::set<std::string> names_;
  std::uint64_t num_values_ = 0;
};

// One overload set decides which stored kinds a typed accessor takes; nullopt means "another kind".
std::optional<std::string> as_string(const GgufValue& value) {
  const auto* text = std::get_if<std::string>(&value.value);
  return text != nullptr ? std::optional(*text) : std::nullopt;
}

std::optional<bool> as_bool(const GgufValue& value) {
  const auto* boolean = std::get_if<bool>(&value.value);
  return boolean != nullptr ? std::optional(*boolean) : std::nullopt;
}

std::optional<std::int64_t> as_integer(const GgufValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value.value)) return *integer;
  const auto* natural = std::get_if<std::uint64_t>(&value.value);
  if (natural == nullptr || *natural > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(*natural);
}

std::optional<double> as_number(const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value.value)) return *number;
  const std::optional<std::int64_t> integer = as_integer(value);
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

template <class Convert>
auto as_list(const GgufValue& value, Convert convert) {
  std::optional<std::vector<typename decltype(convert(value))::value_type>> list;
  const auto* elements = std::get_if<std::vector<GgufValue>>(&value.value);
  if (elements == nullptr) return list;
  list.emplace();
  for (const GgufValue& element : *elements) {
    auto converted = convert(element);
    if (!converted) return decltype(list)();
    list->push_back(std::move(*converted));
  }
  return list;
}

template <class Convert>
auto find_value(const GgufFile& file, std::string_view key, const char* kind, Convert convert)
    -> decltype(convert(std::declval<const GgufValue&>())) {
  const auto found = file.header().metadata.find(key);
  if (found == file.header().metadata.end()) return std::nullopt;
  auto converted = convert(found->second);
  if (!converted) throw UserError({file.path().string(), fmt::format("metadata key \"{}\" is not {}", key, kind), "", kConvertGgufAgain});
  return converted;
}

}  // namespace

std::optional<GgmlTypeInfo> ggml_type_info(GgmlType type) {
  for (const NumberedType& numbered : kTypes) {
    if (numbered.number == static_cast<std::uint32_t>(type)) return numbered.info;
  }
  return std::nullopt;
}

GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& where) { return HeaderParser(file, where).parse(); }

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path), header_(parse_gguf_header(file_.bytes(), path.string())) {}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = std::find_if(header_.tensors.begin(), header_.tensors.end(), [&](const GgufTensor& tensor) { return tensor.name == name; });
  return found == header_.tensors.end() ? nullptr : &*found;
}

std::span<const std::byte> GgufFile::bytes(const GgufTensor& tensor) const {
  return file_.bytes().subspan(header_.data_begin + tensor.begin, tensor.num_bytes);
}

void GgufFile::drop(std::uint64_t begin, std::uint64_t end) const { file_.drop(header_.data_begin + begin, end - begin); }

std::optional<std::string> GgufFile::find_string(std::string_view key) const { return find_value(*this, key, "a string", as_string); }
std::optional<bool> GgufFile::find_bool(std::string_view key) const { return find_value(*this, key, "a boolean", as_bool); }
std::optional<std::int64_t> GgufFile::find_integer(std::string_view key) const { return find_value(*this, key, "an integer", as_integer); }
std::optional<double> GgufFile::find_number(std::string_view key) const { return find_value(*this, key, "a number", as_number); }

std::optional<std::vector<std::string>> GgufFile::find_strings(std::string_view key) const {
  return find_value(*this, key, "a list of strings", [](const GgufValue& value) { return as_list(value, as_string); });
}
std::optional<std::vector<std::int64_t>> GgufFile::find_integers(std::string_view key) const {
  return find_value(*this, key, "a list of integers", [](const GgufValue& value) { return as_list(value, as_integer); });
}
std::optional<std::vector<double>> GgufFile::find_numbers(std::string_view key) const {
  return find_value(*this, key, "a list of numbers", [](const GgufValue& value) { return as_list(value, as_number); });
}

}  // namespace tessera::formats
