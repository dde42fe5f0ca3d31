#include "tessera/formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera::formats {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";

/// Types the format knows and DType does not.
constexpr std::array<std::string_view, 5> kOtherTypes{"C64", "F4", "F6_E2M3", "F6_E3M2", "F8_E8M0"};

constexpr const char* kRename = "give the tensor another name";
constexpr const char* kDamaged = "the file is damaged, or not a safetensors file: download or copy it again";

[[noreturn]] void refuse(const std::string& where, std::string what, std::string rule = "", std::string fix = kDamaged) {
  throw UserError({where, std::move(what), std::move(rule), std::move(fix)});
}

std::uint64_t little_endian_u64(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

std::string_view as_text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::string_view header_text(std::span<const std::byte> file, const std::string& where) {
  if (as_text(file).starts_with("version https://git-lfs"))
    refuse(where, "a Git LFS pointer, not the weights themselves", "", "run `git lfs pull` in the model's repository");
  if (file.size() < kLengthBytes)
    refuse(where, fmt::format("too short for a safetensors file ({} bytes)", file.size()), "", "download the file again");
  const std::uint64_t length = little_endian_u64(file);
  if (length > kMaxHeaderBytes)
    refuse(where, fmt::format("the header claims {} bytes", length), fmt::format("a safetensors header has at most {} bytes", kMaxHeaderBytes),
           "check that this is a safetensors file");
  if (length > file.size() - kLengthBytes)
    refuse(where, fmt::format("the header claims {} bytes, the file has {} after the length", length, file.size() - kLengthBytes), "",
           "the file is truncated: download or copy it again");
  return as_text(file.subspan(kLengthBytes, length));
}

DType read_dtype(const Json& entry, const std::string& where) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) refuse(where, "\"dtype\" is missing or is not a string");
  const auto& name = found->get_ref<const std::string&>();
  if (const std::optional<DType> dtype = dtype_from_safetensors(name)) return *dtype;
  if (std::find(kOtherTypes.begin(), kOtherTypes.end(), name) != kOtherTypes.end())
    refuse(where, "dtype " + name + " is not supported", "", "convert the tensor to float32, bfloat16 or float16");
  refuse(where, "unknown dtype \"" + name + "\"");
}

/// A JSON array of integers in [0, 2^63).
std::vector<std::int64_t> read_sizes(const Json& entry, const char* key, const std::string& where) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) refuse(where, fmt::format("\"{}\" is missing or is not a list", key));
  std::vector<std::int64_t> sizes;
  for (const Json& value : *found) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX)
      refuse(where, fmt::format("\"{}\" holds {}", key, value.dump(-1, ' ', false, Json::error_handler_t::replace)),
             "sizes and offsets are integers from 0 to 2^63 - 1");
    sizes.push_back(value.get<std::int64_t>());
  }
  return sizes;
}

TensorInfo read_tensor(const std::string& name, const Json& entry, const std::string& file) {
  const std::string where = file + ": tensor \"" + name + "\"";
  if (!entry.is_object()) refuse(where, "its header entry is not an object");
  TensorInfo info{name, read_dtype(entry, where), read_sizes(entry, "shape", where)};
  const std::vector<std::int64_t> offsets = read_sizes(entry, "data_offsets", where);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) refuse(where, "\"data_offsets\" is not [begin, end] with begin <= end");
  info.begin = static_cast<std::uint64_t>(offsets[0]);
  info.end = static_cast<std::uint64_t>(offsets[1]);
  const std::optional<std::uint64_t> elements = checked_num_elements(info.shape);
  std::uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, size_of(info.dtype), &bytes))
    refuse(where, "the size of shape " + shape_to_string(info.shape) + " overflows");
  if (bytes != info.num_bytes())
    refuse(where, fmt::format("shape {} of {} takes {} bytes, data_offsets span {}", shape_to_string(info.shape), to_string(info.dtype), bytes,
                              info.num_bytes()));
  return info;
}

StringMap read_metadata(const Json& entry, const std::string& where) {
  if (!entry.is_object()) refuse(where, "__metadata__ is not an object");
  StringMap metadata;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) refuse(where, "__metadata__ key \"" + key + "\" is not a string", "metadata maps strings to strings");
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

/// Sorted tensors must tile the data section exactly.
void check_ranges(const std::vector<TensorInfo>& tensors, std::uint64_t data_size, const std::string& where) {
  std::uint64_t expected = 0;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& info : tensors) {
    const std::string here = where + ": tensor \"" + info.name + "\"";
    if (info.begin < expected) refuse(here, "its bytes overlap those of \"" + previous->name + "\"");
    if (info.begin > expected)
      refuse(here, fmt::format("{} bytes before it belong to no tensor", info.begin - expected), "the tensors of a safetensors file leave no holes");
    if (info.end > data_size)
      refuse(here, fmt::format("its bytes end at {}, the data ends at {}", info.end, data_size), "",
             "the file is truncated: download or copy it again");
    expected = info.end;
    previous = &info;
  }
  if (expected != data_size)
    refuse(where, fmt::format("{} bytes at the end belong to no tensor", data_size - expected), "the tensors of a safetensors file leave no holes");
}

/// Rank of a dtype in the order the reference implementation lays tensors out.
std::size_t layout_rank(DType dtype) {
  constexpr std::array kOrder{DType::U64, DType::I64, DType::F64,     DType::F32,     DType::U32, DType::I32, DType::BF16, DType::F16,
                              DType::U16, DType::I16, DType::F8_E4M3, DType::F8_E5M2, DType::I8,  DType::U8,  DType::Bool};
  return static_cast<std::size_t>(std::find(kOrder.begin(), kOrder.end(), dtype) - kOrder.begin());
}

std::vector<TensorInfo> checked_layout(std::vector<TensorSpec> tensors, const StringMap& metadata, const std::filesystem::path& path) {
  std::set<std::string_view> seen;
  ProblemList problems;
  for (const TensorSpec& tensor : tensors) {
    if (!seen.insert(tensor.name).second)
      problems.add({path.string(), "two tensors named \"" + tensor.name + "\"", "a file holds each name once", kRename});
    if (tensor.name == kMetadataKey)
      problems.add({path.string(), "a tensor cannot be named __metadata__", "the header keeps that name for itself", kRename});
    if (first_invalid_utf8(tensor.name) != std::string::npos) problems.add({path.string(), "a tensor name is not valid UTF-8", "", kRename});
  }
  for (const auto& [key, value] : metadata) {
    if (first_invalid_utf8(key + value) != std::string::npos)
      problems.add({path.string(), "a metadata value is not valid UTF-8", "", "write it as UTF-8"});
  }
  problems.throw_if_any();
  return lay_out_safetensors(std::move(tensors));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& where) {
  const std::string_view text = header_text(file, where);
  const Json header = parse_json(text, where + ": header");
  if (!header.is_object()) refuse(where, "the header is not a JSON object");
  SafetensorsHeader result;
  result.data_begin = kLengthBytes + text.size();
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataKey)
      result.metadata = read_metadata(entry, where);
    else
      result.tensors.push_back(read_tensor(name, entry, where));
  }
  const auto key = [](const TensorInfo& info) { return std::tuple(info.begin, info.end); };
  std::stable_sort(result.tensors.begin(), result.tensors.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  check_ranges(result.tensors, file.size() - result.data_begin, where);
  return result;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path), header_(parse_safetensors_header(file_.bytes(), path.string())) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) index_by_name_.emplace(header_.tensors[i].name, i);
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_by_name_.find(name);
  return found == index_by_name_.end() ? nullptr : &header_.tensors[found->second];
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorInfo& info) const {
  return file_.bytes().subspan(header_.data_begin + info.begin, info.num_bytes());
}

void SafetensorsFile::drop(std::uint64_t begin, std::uint64_t end) const { file_.drop(header_.data_begin + begin, end - begin); }

std::vector<TensorInfo> lay_out_safetensors(std::vector<TensorSpec> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    const std::size_t rank_a = layout_rank(a.dtype);
    const std::size_t rank_b = layout_rank(b.dtype);
    return rank_a != rank_b ? rank_a < rank_b : a.name < b.name;
  });
  std::vector<TensorInfo> infos;
  std::uint64_t offset = 0;
  for (TensorSpec& tensor : tensors) {
    const std::uint64_t begin = offset;
    offset += num_bytes(tensor);
    infos.push_back({std::move(tensor.name), tensor.dtype, std::move(tensor.shape), begin, offset});
  }
  return infos;
}

std::string safetensors_header_bytes(std::span<const TensorInfo> tensors, const StringMap& metadata) {
  OrderedJson header = OrderedJson::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  // push_back, because operator[] of an ordered object searches linearly.
  for (const TensorInfo& info : tensors) {
    OrderedJson entry;
    entry["dtype"] = to_string(info.dtype);
    entry["shape"] = info.shape;
    entry["data_offsets"] = {info.begin, info.end};
    header.get_ref<OrderedJson::object_t&>().push_back({info.name, std::move(entry)});
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string bytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes.push_back(static_cast<char>(text.size() >> (8 * i)));
  return bytes + text;
}

SafetensorsWriter::SafetensorsWriter(FileOperations& operations, std::filesystem::path path, std::vector<TensorSpec> tensors,
                                     const StringMap& metadata)
    : tensors_(checked_layout(std::move(tensors), metadata, path)), writer_(operations, std::move(path)) {
  writer_.write(safetensors_header_bytes(tensors_, metadata));
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  while (current_ < tensors_.size() && tensors_[current_].end == position_) ++current_;
  TESSERA_ASSERT(current_ < tensors_.size(), "bytes after the last tensor");
  TESSERA_ASSERT(tensors_[current_].name == name, "tensor out of order");
  TESSERA_ASSERT(bytes.size() <= tensors_[current_].end - position_, "more bytes than the tensor has");
  writer_.write(bytes);
  position_ += bytes.size();
}

void SafetensorsWriter::finish() {
  TESSERA_ASSERT(tensors_.empty() || position_ == tensors_.back().end, "tensors are missing");
  writer_.finish();
}

}  // namespace tessera::formats
