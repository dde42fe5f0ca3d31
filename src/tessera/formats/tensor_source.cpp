#include "tessera/formats/tensor_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/text.h"
#include "tessera/formats/convert.h"
#include "tessera/formats/dequantized_source.h"
#include "tessera/formats/gguf.h"
#include "tessera/formats/gguf_dequantize.h"
#include "tessera/formats/huggingface.h"
#include "tessera/formats/llama2c.h"
#include "tessera/formats/safetensors.h"

namespace tessera::formats {
namespace {

constexpr std::uint64_t kStreamBytes = 4 << 20;  // read, converted and released at a time
constexpr const char* kOtherArchitecture = "the file holds another architecture than it says: convert the model again with a current llama.cpp";

std::uint64_t row_elements(const TensorSpec& spec) { return num_elements(std::span(spec.shape).subspan(1)); }

/// Converts elements [first, first + count) of a tensor whose bytes are mapped, piece by piece. `drop(begin, end)` releases bytes of the tensor.
template <class Drop>
void stream_elements(std::span<const std::byte> bytes, DType source, std::uint64_t first, std::uint64_t count, DType destination, std::byte* out,
                     const Drop& drop) {
  const std::uint64_t size = size_of(source);
  const std::uint64_t step = kStreamBytes / size;
  for (std::uint64_t done = 0; done < count; done += step) {
    const std::uint64_t begin = first + done;
    const std::uint64_t piece = std::min(step, count - done);
    convert_elements(source, bytes.data() + begin * size, destination, out + done * size_of(destination), piece);
    drop(begin * size, (begin + piece) * size);
  }
}

std::vector<TensorSpec> specs_of(const HuggingFaceDirectory& directory) {
  std::vector<TensorSpec> specs;
  for (const auto& entry : directory.tensors()) specs.push_back(entry.info.spec());
  return specs;
}

void stream_safetensors(const SafetensorsFile& file, const TensorInfo& info, std::uint64_t first, std::uint64_t count, DType destination,
                        std::span<std::byte> out) {
  stream_elements(file.bytes(info), info.dtype, first, count, destination, out.data(),
                  [&](std::uint64_t begin, std::uint64_t end) { file.drop(info.begin + begin, info.begin + end); });
}

class HuggingFaceSource : public TensorSource {
 public:
  explicit HuggingFaceSource(HuggingFaceDirectory directory) : TensorSource(specs_of(directory)), directory_(std::move(directory)) {}
  std::string where() const override { return directory_.path().string(); }

 private:
  void read_elements(std::size_t tensor, std::uint64_t first, std::uint64_t count, DType destination, std::span<std::byte> out) const override {
    const HuggingFaceDirectory::Entry& entry = directory_.tensors()[tensor];
    stream_safetensors(directory_.files()[entry.file], entry.info, first, count, destination, out);
  }

  HuggingFaceDirectory directory_;
};

/// The dtype that holds a GGUF tensor's values without loss.
DType lossless_dtype(GgmlType type) {
  if (type == GgmlType::F16) return DType::F16;
  if (type == GgmlType::BF16) return DType::BF16;
  return DType::F32;
}

std::vector<GgufTensor> in_file_order(std::vector<GgufTensor> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const GgufTensor& a, const GgufTensor& b) { return a.begin < b.begin; });
  return tensors;
}

std::vector<TensorSpec> specs_of(const GgufFile& file, const std::vector<GgufTensor>& tensors) {
  std::vector<TensorSpec> specs;
  ProblemList problems;
  for (const GgufTensor& tensor : tensors) {
    const GgmlTypeInfo type = *ggml_type_info(tensor.type);
    const auto refuse = [&](std::string what, std::string rule, std::string fix) {
      problems.add({file.path().string(), fmt::format("tensor \"{}\": {}", tensor.name, what), std::move(rule), std::move(fix)});
    };
    if (!can_dequantize(tensor.type))
      refuse(fmt::format("type {} is not supported", type.name), "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K can be read",
             "take a file in one of these");
    else if (type.block_elements > 1 && tensor.shape.size() < 2)
      refuse(fmt::format("a vector of type {} is not supported", type.name), "vectors are F32, F16 or BF16, because their rows are not whole blocks",
             kConvertGgufAgain);
    specs.push_back({tensor.name, lossless_dtype(tensor.type), tensor.shape});
  }
  problems.throw_if_any();
  return specs;
}

class GgufSource : public TensorSource {
 public:
  GgufSource(GgufFile file, std::vector<GgufTensor> tensors)
      : TensorSource(specs_of(file, tensors)), file_(std::move(file)), stored_(std::move(tensors)) {}
  std::string where() const override { return file_.path().string(); }

 private:
  void read_elements(std::size_t tensor, std::uint64_t first, std::uint64_t count, DType destination, std::span<std::byte> out) const override {
    const GgufTensor& stored = stored_[tensor];
    const GgmlTypeInfo type = *ggml_type_info(stored.type);
    const auto drop = [&](std::uint64_t begin, std::uint64_t end) { file_.drop(stored.begin + begin, stored.begin + end); };
    if (type.block_elements == 1)
      return stream_elements(file_.bytes(stored), lossless_dtype(stored.type), first, count, destination, out.data(), drop);
    dequantize_elements(stored, type, first, count, destination, out.data(), drop);
  }

  /// Whole rows are whole blocks, so `first` and `count` are.
  template <class Drop>
  void dequantize_elements(const GgufTensor& stored, const GgmlTypeInfo& type, std::uint64_t first, std::uint64_t count, DType destination,
                           std::byte* out, const Drop& drop) const {
    const std::span<const std::byte> bytes = file_.bytes(stored);
    const auto byte_of = [&](std::uint64_t element) { return element / type.block_elements * type.block_bytes; };
    std::vector<float> floats(std::min<std::uint64_t>(count, kStreamBytes / sizeof(float)));
    for (std::uint64_t done = 0; done < count; done += floats.size()) {
      const std::uint64_t begin = first + done;
      const auto piece = std::span(floats).first(std::min<std::uint64_t>(floats.size(), count - done));
      dequantize(stored.type, bytes.subspan(byte_of(begin), byte_of(piece.size())), piece);
      convert_elements(DType::F32, std::as_bytes(piece).data(), destination, out + done * size_of(destination), piece.size());
      drop(byte_of(begin), byte_of(begin + piece.size()));
    }
  }

  GgufFile file_;
  std::vector<GgufTensor> stored_;
};

std::vector<TensorSpec> specs_of(const Llama2cHeader& header) {
  std::vector<TensorSpec> specs;
  for (const Llama2cTensor& tensor : header.tensors) specs.push_back({tensor.name, DType::F32, tensor.shape});
  return specs;
}

/// The tensors as the file has them: q and k rows interleaved.
class Llama2cSource : public TensorSource {
 public:
  Llama2cSource(MappedFile file, Llama2cHeader header) : TensorSource(specs_of(header)), file_(std::move(file)), header_(std::move(header)) {}
  std::string where() const override { return file_.path().string(); }

 private:
  void read_elements(std::size_t tensor, std::uint64_t first, std::uint64_t count, DType destination, std::span<std::byte> out) const override {
    const std::uint64_t offset = header_.tensors[tensor].begin;
    stream_elements(file_.bytes().subspan(offset), DType::F32, first, count, destination, out.data(),
                    [&](std::uint64_t begin, std::uint64_t end) { file_.drop(offset + begin, end - begin); });
  }

  MappedFile file_;
  Llama2cHeader header_;
};

std::vector<TensorSpec> renamed_specs(const TensorSource& source, const std::vector<MappedTensor>& tensors) {
  std::vector<TensorSpec> specs;
  ProblemList problems;
  for (const MappedTensor& tensor : tensors) {
    const TensorSpec* found = source.find(tensor.source_name);
    if (found == nullptr) {
      problems.add({source.where(), "tensor \"" + tensor.source_name + "\" is missing (it becomes \"" + tensor.name + "\")", "", kOtherArchitecture});
      continue;
    }
    if (tensor.interleaved_heads > 0 && (found->shape.empty() || found->shape[0] % (2 * tensor.interleaved_heads) != 0))
      problems.add({source.where(),
                    fmt::format("tensor \"{}\" of shape {} does not consist of {} heads with rotary pairs", tensor.source_name,
                                shape_to_string(found->shape), tensor.interleaved_heads),
                    "", kOtherArchitecture});
    specs.push_back({tensor.name, found->dtype, found->shape});
  }
  problems.throw_if_any();
  return specs;
}

class RenamedSource : public TensorSource {
 public:
  RenamedSource(std::unique_ptr<TensorSource> source, std::vector<MappedTensor> mapped)
      : TensorSource(renamed_specs(*source, mapped)), source_(std::move(source)), mapped_(std::move(mapped)) {}
  std::string where() const override { return source_->where(); }

 private:
  void read_elements(std::size_t tensor, std::uint64_t first, std::uint64_t count, DType destination, std::span<std::byte> out) const override {
    const TensorSpec& spec = tensors()[tensor];
    const MappedTensor& mapped = mapped_[tensor];
    if (spec.shape.empty() || count == 0) return source_->read(mapped.source_name, destination, out);
    const auto row = static_cast<std::int64_t>(first / row_elements(spec));
    const auto num_rows = static_cast<std::int64_t>(count / row_elements(spec));
    if (mapped.interleaved_heads == 0) return source_->read_rows(mapped.source_name, row, num_rows, destination, out);
    read_interleaved(spec, mapped, row, row + num_rows, destination, out);
  }

  /// Head by head through a buffer of one head, because single rows would be too small for the source to release what it has read.
  void read_interleaved(const TensorSpec& spec, const MappedTensor& mapped, std::int64_t begin, std::int64_t end, DType destination,
                        std::span<std::byte> out) const {
    const std::int64_t head_dim = spec.shape[0] / mapped.interleaved_heads;
    const std::size_t row_bytes = row_elements(spec) * size_of(destination);
    std::vector<std::byte> head(static_cast<std::size_t>(head_dim) * row_bytes);
    for (std::int64_t first = begin / head_dim * head_dim; first < end; first += head_dim) {
      source_->read_rows(mapped.source_name, first, head_dim, destination, head);
      for (std::int64_t row = std::max(begin, first); row < std::min(end, first + head_dim); ++row) {
        const std::int64_t within = row - first;
        const std::int64_t half = head_dim / 2;
        const std::int64_t interleaved = within < half ? 2 * within : 2 * (within - half) + 1;
        std::memcpy(out.data() + static_cast<std::size_t>(row - begin) * row_bytes, head.data() + static_cast<std::size_t>(interleaved) * row_bytes,
                    row_bytes);
      }
    }
  }

  std::unique_ptr<TensorSource> source_;
  std::vector<MappedTensor> mapped_;
};

}  // namespace

TensorSource::TensorSource(std::vector<TensorSpec> tensors) : tensors_(std::move(tensors)) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const bool inserted = index_by_name_.emplace(tensors_[i].name, i).second;
    TESSERA_ASSERT(inserted, "a tensor name is given twice");
  }
}

const TensorSpec* TensorSource::find(std::string_view name) const {
  const auto found = index_by_name_.find(name);
  return found == index_by_name_.end() ? nullptr : &tensors_[found->second];
}

std::size_t TensorSource::index_of(std::string_view name, DType destination) const {
  const auto found = index_by_name_.find(name);
  if (found == index_by_name_.end()) {
    std::vector<std::string> known;
    for (const TensorSpec& spec : tensors_) known.push_back(spec.name);
    throw UserError(
        {where(), "no tensor named \"" + std::string(name) + "\"", "", did_you_mean(name, known, "check that the file is the one that was meant")});
  }
  const DType stored = tensors_[found->second].dtype;
  if (!is_convertible(stored, destination))
    throw UserError({where(), fmt::format("tensor \"{}\" is {}, which does not convert to {}", name, to_string(stored), to_string(destination)),
                     "F64, F32, F16 and BF16 convert to F32, F16 and BF16", "store it as float32, bfloat16 or float16"});
  return found->second;
}

void TensorSource::read(std::string_view name, DType destination, std::span<std::byte> out) const {
  const std::size_t tensor = index_of(name, destination);
  const std::uint64_t count = num_elements(tensors_[tensor].shape);
  TESSERA_ASSERT(out.size() == count * size_of(destination), "the output has another size than the tensor");
  if (count > 0) read_elements(tensor, 0, count, destination, out);
}

void TensorSource::read_rows(std::string_view name, std::int64_t first_row, std::int64_t num_rows, DType destination,
                             std::span<std::byte> out) const {
  const std::size_t tensor = index_of(name, destination);
  const TensorSpec& spec = tensors_[tensor];
  TESSERA_ASSERT(!spec.shape.empty() && first_row >= 0 && num_rows >= 0 && first_row <= spec.shape[0] - num_rows, "rows outside the tensor");
  const std::uint64_t row = row_elements(spec);
  const std::uint64_t count = static_cast<std::uint64_t>(num_rows) * row;
  TESSERA_ASSERT(out.size() == count * size_of(destination), "the output has another size than the rows");
  if (count > 0) read_elements(tensor, static_cast<std::uint64_t>(first_row) * row, count, destination, out);
}

std::unique_ptr<TensorSource> open_huggingface_source(const std::filesystem::path& directory) {
  return dequantize_tensors(std::make_unique<HuggingFaceSource>(HuggingFaceDirectory(directory)));
}

std::unique_ptr<TensorSource> open_gguf_source(const std::filesystem::path& file) {
  GgufFile gguf(file);
  std::vector<GgufTensor> tensors = in_file_order(gguf.tensors());
  return std::make_unique<GgufSource>(std::move(gguf), std::move(tensors));
}

std::unique_ptr<TensorSource> open_llama2c_source(const std::filesystem::path& file) {
  MappedFile mapped(file);
  Llama2cHeader header = parse_llama2c_header(mapped.bytes(), file.string());
  std::vector<MappedTensor> tensors;
  for (const Llama2cTensor& tensor : header.tensors) tensors.push_back({tensor.name, tensor.name, tensor.interleaved_heads});
  return rename_tensors(std::make_unique<Llama2cSource>(std::move(mapped), std::move(header)), std::move(tensors));
}

std::unique_ptr<TensorSource> rename_tensors(std::unique_ptr<TensorSource> source, std::vector<MappedTensor> tensors) {
  return std::make_unique<RenamedSource>(std::move(source), std::move(tensors));
}

}  // namespace tessera::formats
