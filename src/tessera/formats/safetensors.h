#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/dtype.h"
#include "tessera/core/file.h"
#include "tessera/formats/tensor_spec.h"

/// The safetensors format: 8 bytes little-endian header length, a JSON header, then the tensors' bytes, which cover the rest of the file
/// without overlap or hole. Specification: https://github.com/huggingface/safetensors#format.
namespace tessera::formats {

using StringMap = std::map<std::string, std::string>;

/// One tensor of a file. `begin` and `end` are byte offsets in the data section.
struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t num_bytes() const { return end - begin; }
  std::uint64_t num_elements() const { return formats::num_elements(shape); }
  TensorSpec spec() const { return {name, dtype, shape}; }
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< in the order of their bytes
  StringMap metadata;
  std::uint64_t data_begin = 0;  ///< offset of the data section in the file
};

/// Checks a whole file: the header is at most 100 MB, lies within the file and is valid JSON without repeated keys; every dtype is known; shape ×
/// dtype is the byte range; ranges neither overlap, leave holes nor pass the end, and nothing follows them. Throws UserError that starts with
/// `where`. Only the header is read; `file` must be all bytes of the file.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& where);

/// A safetensors file, mapped. Const members may be called from several threads.
class SafetensorsFile {
 public:
  /// Throws UserError for a missing, unreadable or malformed file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const StringMap& metadata() const { return header_.metadata; }
  /// nullptr when there is none of that name.
  const TensorInfo* find(std::string_view name) const;
  /// The tensor's bytes in the mapping; not necessarily aligned for its dtype. `info` must come from this file.
  std::span<const std::byte> bytes(const TensorInfo& info) const;
  /// Lets the bytes [begin, end) of the data section leave memory; they are read again from the file when touched.
  void drop(std::uint64_t begin, std::uint64_t end) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string_view, std::size_t> index_by_name_;
};

/// Assigns offsets, in the order the reference implementation writes: wide dtypes first, so that every tensor is aligned, then by name.
std::vector<TensorInfo> lay_out_safetensors(std::vector<TensorSpec> tensors);
/// The 8 length bytes and the JSON, padded with spaces to a multiple of 8: byte for byte what the reference implementation writes (metadata sorted by
/// key).
std::string safetensors_header_bytes(std::span<const TensorInfo> tensors, const StringMap& metadata);

/// Writes one safetensors file front to back, so that memory stays bounded by the pieces the caller hands over:
///   SafetensorsWriter writer(operations, path, specs, {{"format", "pt"}});
///   for (const TensorInfo& info : writer.tensors()) writer.write(info.name, bytes);   // in one piece or several
///   writer.finish();
/// Names must be unique valid UTF-8 (UserError). Bytes out of order, too many or too few are programming errors (assertion).
class SafetensorsWriter {
 public:
  /// Creates the file and writes the header. Throws Failure when the file system refuses.
  SafetensorsWriter(FileOperations& operations, std::filesystem::path path, std::vector<TensorSpec> tensors, const StringMap& metadata = {});

  /// What must be written, in this order.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  /// The next bytes of tensor `name`, little-endian.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Checks that every tensor is complete, syncs and closes. Without it the file counts as incomplete.
  void finish();

 private:
  std::vector<TensorInfo> tensors_;
  FileWriter writer_;
  std::size_t current_ = 0;     // tensor being written
  std::uint64_t position_ = 0;  // bytes of the data section written so far
};

}  // namespace tessera::formats
