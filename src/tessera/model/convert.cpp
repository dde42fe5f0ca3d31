#include "tessera/model/convert.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/terminal.h"
#include "tessera/core/writable.h"
#include "tessera/formats/tensor_source.h"
#include "tessera/model/config.h"
#include "tessera/model/import.h"
#include "tessera/model/load.h"
#include "tessera/model/parameter_table.h"

namespace tessera::model {
namespace {

namespace fs = std::filesystem;
using formats::TensorSource;
using formats::TensorSpec;

constexpr std::uint64_t kChunkBytes = std::uint64_t{16} << 20;

/// What the destination will hold.
struct Contents {
  ImportedModel model;
  std::map<std::string, std::string> files;
};

bool is_floating(DType dtype) { return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16; }

Contents open_huggingface(const fs::path& directory) {
  Contents contents;
  contents.model.config = read_config_json(directory);
  contents.model.weights = formats::open_huggingface_source(directory);
  check_weights(parameter_table(read_model_spec(directory)), *contents.model.weights);
  for (const fs::path& path : formats::find_tokenizer_files(directory).existing()) contents.files[path.filename().string()] = read_text_file(path);
  const fs::path generation = directory / "generation_config.json";
  if (fs::exists(generation)) contents.files["generation_config.json"] = read_text_file(generation);
  return contents;
}

Contents open_source(const fs::path& source) {
  switch (detect_model_format(source)) {
    case ModelFormat::Gguf:
      return {import_gguf(source), {}};
    case ModelFormat::Llama2c:
      return {import_llama2c(source), {}};
    case ModelFormat::HuggingFace:
      return open_huggingface(source);
  }
  TESSERA_ASSERT(false, "every format has a reader");
}

/// The dtype that most of the weights have.
DType stored_dtype(const Contents& contents) {
  std::map<DType, std::uint64_t> bytes;
  for (const TensorSpec& tensor : contents.model.weights->tensors()) {
    if (is_floating(tensor.dtype)) bytes[tensor.dtype] += formats::num_bytes(tensor);
  }
  if (bytes.empty()) return DType::F32;
  const DType most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; })->first;
  return most == DType::F64 ? DType::F32 : most;
}

/// Without a wish: the config's own where it is known to lose nothing (imports), the tensors' where they are stored.
DType chosen_dtype(const ConvertRequest& request, const Contents& contents) {
  if (request.dtype) return *request.dtype;
  const auto named = contents.model.config.find("torch_dtype");
  const bool imported = detect_model_format(request.source) != ModelFormat::HuggingFace;
  if (imported && named != contents.model.config.end()) return *dtype_from_torch(named->get<std::string>());
  return stored_dtype(contents);
}

void set_dtype(Json& config, DType dtype) {
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = torch_name(dtype);
  config.erase("quantization_config");  // weights are dequantised as they are read
}

std::vector<TensorSpec> planned_tensors(const TensorSource& source, DType dtype) {
  std::vector<TensorSpec> tensors = source.tensors();
  for (TensorSpec& tensor : tensors) {
    if (is_floating(tensor.dtype)) tensor.dtype = dtype;
  }
  return tensors;
}

void stream_tensor(const TensorSource& source, const TensorSpec& tensor, const formats::ByteSink& sink, ProgressBar& progress) {
  std::vector<std::byte> buffer;
  const std::uint64_t total = formats::num_bytes(tensor);
  if (tensor.shape.empty() || total == 0) {
    buffer.resize(total);
    source.read(tensor.name, tensor.dtype, buffer);
    return sink(buffer);
  }
  const std::uint64_t row_bytes = total / static_cast<std::uint64_t>(tensor.shape[0]);
  const auto step = static_cast<std::int64_t>(std::max<std::uint64_t>(1, kChunkBytes / std::max<std::uint64_t>(row_bytes, 1)));
  for (std::int64_t row = 0; row < tensor.shape[0]; row += step) {
    const std::int64_t rows = std::min(step, tensor.shape[0] - row);
    buffer.resize(static_cast<std::size_t>(rows) * row_bytes);
    source.read_rows(tensor.name, row, rows, tensor.dtype, buffer);
    sink(buffer);
    progress.advance(buffer.size());
  }
}

void write_text(FileOperations& operations, const fs::path& path, std::string_view text) {
  FileWriter writer(operations, path);
  writer.write(text);
  writer.finish();
}

void write_directory(FileOperations& operations, const fs::path& directory, const Contents& contents, const formats::ShardPlan& plan,
                     const std::map<std::string, std::string>& more_files) {
  operations.create_directory(directory);
  ProgressBar progress("converting", plan.total_size, ProgressBar::Unit::Bytes);
  formats::write_shards(operations, directory, plan, [&](const TensorSpec& tensor, const formats::ByteSink& sink) {
    stream_tensor(*contents.model.weights, tensor, sink, progress);
  });
  write_text(operations, directory / "config.json", contents.model.config.dump(2) + "\n");
  for (const auto& [name, text] : contents.files) {
    if (!more_files.contains(name)) write_text(operations, directory / name, text);
  }
  for (const auto& [name, text] : more_files) write_text(operations, directory / name, text);
  operations.sync_directory(directory);
}

void refuse_existing(const fs::path& destination) {
  if (!fs::exists(fs::symlink_status(destination))) return;
  throw UserError({destination.string(), "the destination exists already", "a conversion never overwrites", "remove it or choose another name"});
}

/// Found before anything is read or written.
void check_destination(const fs::path& destination) {
  if (destination.empty()) throw UserError({"", "the destination has no name", "it is a directory to create", "name one"});
  refuse_existing(destination);
  check_can_create(destination);
}

}  // namespace

ModelFormat detect_model_format(const fs::path& source) {
  if (fs::is_directory(source)) {
    if (fs::exists(source / "config.json")) return ModelFormat::HuggingFace;
    throw UserError({source.string(), "the directory has no config.json", "a Hugging Face directory holds config.json and safetensors files",
                     "check the path; for a single file, name the file"});
  }
  std::ifstream file(source, std::ios::binary);
  if (!file) throw UserError({source.string(), "no such file or directory", "", "check the path; a model has to be downloaded first"});
  std::array<char, 4> magic{};
  file.read(magic.data(), magic.size());
  if (std::string_view(magic.data(), magic.size()) == "GGUF") return ModelFormat::Gguf;
  if (source.extension() == ".bin") return ModelFormat::Llama2c;
  throw UserError({source.string(), "is neither a GGUF file nor a llama2.c checkpoint (.bin)",
                   "models are converted from Hugging Face directories, GGUF files and llama2.c checkpoints",
                   "name one of these; for safetensors, the directory that holds them"});
}

ConvertResult convert_model(FileOperations& operations, const ConvertRequest& request) {
  fs::path destination = request.destination.lexically_normal();
  if (!destination.has_filename()) destination = destination.parent_path();
  check_destination(destination);
  Contents contents = open_source(request.source);
  const DType dtype = chosen_dtype(request, contents);
  set_dtype(contents.model.config, dtype);
  const auto plan = formats::plan_shards(planned_tensors(*contents.model.weights, dtype), request.max_shard_size);
  fs::path aside = destination;
  aside += fmt::format(".incomplete-{}", ::getpid());
  try {
    write_directory(operations, aside, contents, plan, request.files);
    operations.rename(aside, destination);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(aside, ignored);
    throw;
  }
  operations.sync_directory(destination.has_parent_path() ? destination.parent_path() : fs::path("."));
  const auto num_tensors = static_cast<std::int64_t>(contents.model.weights->tensors().size());
  return {contents.model.config, dtype, num_tensors, plan.total_size};
}

}  // namespace tessera::model
