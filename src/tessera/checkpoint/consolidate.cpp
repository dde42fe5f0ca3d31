#include "tessera/checkpoint/consolidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/checkpoint/files.h"
#include "tessera/checkpoint/hash.h"
#include "tessera/checkpoint/shard.h"
#include "tessera/comm/values.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/formats/huggingface.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

constexpr std::uint64_t kCopiedBytes = std::uint64_t{8} << 20;

std::vector<formats::TensorSpec> specs_of(const TensorRecords& records) {
  std::vector<formats::TensorSpec> specs;
  for (const auto& [name, record] : records) specs.push_back({name, record.dtype, record.shape});
  return specs;
}

// Row-major memory for `num_rows` rows of a tensor from `first_row` on; the whole tensor when it is a scalar.
TensorBox rows_of(const formats::TensorSpec& tensor, DType dtype, std::int64_t first_row, std::int64_t num_rows, std::byte* memory) {
  TensorBox box{{tensor.name, dtype, tensor.shape},
                std::vector<std::int64_t>(tensor.shape.size(), 0),
                tensor.shape,
                memory,
                std::vector<std::int64_t>(tensor.shape.size(), 1)};
  if (tensor.shape.empty()) return box;
  box.offset[0] = first_row;
  box.size[0] = num_rows;
  for (std::size_t dim = tensor.shape.size() - 1; dim-- > 0;) box.strides[dim] = box.strides[dim + 1] * tensor.shape[dim + 1];
  return box;
}

class CheckpointSource : public formats::TensorSource {
 public:
  CheckpointSource(fs::path checkpoint, TensorRecords records)
      : TensorSource(specs_of(records)), checkpoint_(std::move(checkpoint)), records_(std::move(records)) {}
  std::string where() const override { return checkpoint_.string(); }

 private:
  // A reader of its own for each call: it opens files as it needs them, and calls may come from several threads.
  void read_elements(std::size_t tensor, std::uint64_t first, std::uint64_t count, DType destination, std::span<std::byte> out) const override {
    const formats::TensorSpec& spec = tensors()[tensor];
    const std::uint64_t row = spec.shape.empty() ? 1 : formats::num_elements(std::span(spec.shape).subspan(1));
    if (count == 0) return;
    ShardReader reader(checkpoint_, records_);
    reader.read(rows_of(spec, destination, static_cast<std::int64_t>(first / row), static_cast<std::int64_t>(count / row), out.data()));
  }

  fs::path checkpoint_;
  TensorRecords records_;
};

// Bytes [begin, end) of a tensor as a file holds it.
void stream_tensor(ShardReader& reader, const formats::TensorSpec& tensor, std::uint64_t begin, std::uint64_t end, const formats::ByteSink& sink) {
  const std::uint64_t row_bytes = formats::num_bytes(tensor) / static_cast<std::uint64_t>(tensor.shape.empty() ? 1 : tensor.shape[0]);
  const std::uint64_t rows_at_once = std::max<std::uint64_t>(1, kCopiedBytes / row_bytes);
  std::vector<std::byte> chunk;
  while (begin < end) {
    const std::uint64_t first = begin / row_bytes;
    const std::uint64_t count = std::min(rows_at_once, (end + row_bytes - 1) / row_bytes - first);
    chunk.resize(count * row_bytes);
    reader.read(rows_of(tensor, tensor.dtype, static_cast<std::int64_t>(first), static_cast<std::int64_t>(count), chunk.data()));
    const std::uint64_t stop = std::min(end, (first + count) * row_bytes);
    sink(std::span(chunk).subspan(begin - first * row_bytes, stop - begin));
    begin = stop;
  }
}

// One weight file of a consolidated directory: a header, then the tensors.
struct WeightFile {
  std::string name;
  std::string header;
  std::vector<formats::TensorInfo> tensors;

  std::uint64_t size() const { return header.size() + (tensors.empty() ? 0 : tensors.back().end); }
};

formats::ShardPlan shard_plan(const ConsolidateSource& source, const ConsolidateOptions& options) {
  std::vector<formats::TensorSpec> specs = specs_of(*source.model);
  if (options.dtype)
    for (formats::TensorSpec& spec : specs) spec.dtype = *options.dtype;
  return formats::plan_shards(specs, options.max_shard_size);
}

std::vector<WeightFile> weight_files(const ConsolidateSource& source, const ConsolidateOptions& options) {
  std::vector<WeightFile> files;
  for (const formats::ShardPlan::Shard& shard : shard_plan(source, options).shards) {
    std::vector<formats::TensorInfo> tensors = formats::lay_out_safetensors(shard.tensors);
    std::string header = formats::safetensors_header_bytes(tensors, {{"format", "pt"}});
    files.push_back({shard.file_name, std::move(header), std::move(tensors)});
  }
  return files;
}

// Bytes [part.begin, part.end) of a weight file.
void stream_part(ShardReader& reader, const WeightFile& file, const FilePart& part, const formats::ByteSink& sink) {
  const std::uint64_t header = file.header.size();
  if (part.begin < header) sink(std::as_bytes(std::span(file.header)).subspan(part.begin, std::min(part.end, header) - part.begin));
  for (const formats::TensorInfo& tensor : file.tensors) {
    const std::uint64_t begin = std::max(part.begin, header + tensor.begin);
    const std::uint64_t end = std::min(part.end, header + tensor.end);
    if (begin < end) stream_tensor(reader, tensor.spec(), begin - header - tensor.begin, end - header - tensor.begin, sink);
  }
}

// Writes one part and returns the hashes of its blocks.
BlockHashes write_part(FileOperations& operations, ShardReader& reader, const fs::path& output, const WeightFile& file, const FilePart& part,
                       const Progress& progress) {
  FileHasher hasher;
  FileWriter writer(operations, output / file.name, part.begin);
  stream_part(reader, file, part, [&](std::span<const std::byte> bytes) {
    update_beside(hasher, bytes, [&] { writer.write(bytes); });
    if (progress) progress(bytes.size());
  });
  writer.finish();
  return hasher.blocks();
}

void create_empty(FileOperations& operations, const fs::path& path) { operations.close(operations.create(path), path); }

bool belongs_to_model_directory(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return entry.is_regular_file() && !name.ends_with(".safetensors") && name != "consolidate.sh" && name != "config.json";
}

// config.json, tokenizer and generation files of the checkpoint's model/.
void copy_model_files(FileOperations& operations, const fs::path& model, const fs::path& output, std::optional<DType> dtype) {
  const fs::path config = model / "config.json";
  if (fs::exists(config)) {
    const std::string text = read_text_file(config);
    write_text(operations, output / "config.json", dtype ? config_with_dtype(text, *dtype, config.string()) : text);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(model))
    if (belongs_to_model_directory(entry)) copy_file(operations, entry.path(), output / entry.path().filename());
}

// What is read of a checkpoint.
bool is_of_model(const std::string& file) { return file.starts_with("model/") && !is_consolidated(file); }

}  // namespace

std::vector<FilePart> parts_of_rank(const std::vector<std::uint64_t>& sizes, int rank, int num_ranks) {
  const auto num_blocks = [](std::uint64_t size) { return (size + kBlockBytes - 1) / kBlockBytes; };
  std::uint64_t total = 0;
  for (const std::uint64_t size : sizes) total += num_blocks(size);
  const std::uint64_t first = total * static_cast<std::uint64_t>(rank) / static_cast<std::uint64_t>(num_ranks);
  const std::uint64_t last = total * static_cast<std::uint64_t>(rank + 1) / static_cast<std::uint64_t>(num_ranks);
  std::vector<FilePart> parts;
  std::uint64_t before = 0;  // blocks of earlier files
  for (std::size_t file = 0; file < sizes.size(); ++file) {
    const std::uint64_t begin = std::max(first, before);
    const std::uint64_t end = std::min(last, before + num_blocks(sizes[file]));
    if (begin < end) parts.push_back({file, (begin - before) * kBlockBytes, std::min(sizes[file], (end - before) * kBlockBytes)});
    before += num_blocks(sizes[file]);
  }
  return parts;
}

std::map<std::string, FileRecord> write_consolidated(FileOperations& operations, const ConsolidateSource& source, const fs::path& output,
                                                     const ConsolidateOptions& options, comm::Communicator& group) {
  const std::vector<WeightFile> files = weight_files(source, options);
  std::vector<std::uint64_t> sizes;
  for (const WeightFile& file : files) sizes.push_back(file.size());
  comm::together(group, [&] {
    if (group.rank() != 0) return;
    for (const WeightFile& file : files) create_empty(operations, output / file.name);
  });
  Json hashes = Json::array();  // of this rank's parts, in the order of parts_of_rank
  comm::together(group, [&] {
    ShardReader reader(source.root, *source.model);
    for (const FilePart& part : parts_of_rank(sizes, group.rank(), group.size()))
      hashes.push_back(write_part(operations, reader, output, files[part.file], part, options.progress));
  });
  std::vector<BlockHashes> blocks(files.size());
  int rank = 0;
  for (const std::string& text : comm::gather(group, hashes.dump())) {
    const Json of_rank = parse_json(text, "a rank's hashes");
    std::size_t number = 0;
    for (const FilePart& part : parts_of_rank(sizes, rank++, group.size()))
      for (const Json& hash : of_rank.at(number++)) blocks[part.file].push_back(hash.get<std::uint64_t>());
  }
  std::map<std::string, FileRecord> records;
  for (std::size_t file = 0; file < files.size(); ++file) records[files[file].name] = {sizes[file], file_hash_hex(blocks[file])};
  return records;
}

void write_consolidated_model_files(FileOperations& operations, const ConsolidateSource& source, const fs::path& output,
                                    const ConsolidateOptions& options) {
  const formats::ShardPlan plan = shard_plan(source, options);
  if (plan.shards.size() > 1) write_text(operations, output / "model.safetensors.index.json", formats::shard_index_json(plan));
  copy_model_files(operations, source.model_files, output, options.dtype);
}

std::uint64_t bytes_to_consolidate(const Manifest& manifest, const ConsolidateOptions& options, int num_ranks) {
  std::uint64_t bytes = bytes_to_hash(manifest, options.verify, is_of_model);
  for (const auto& [name, record] : manifest.model) bytes += formats::num_elements(record.shape) * size_of(options.dtype.value_or(record.dtype));
  return bytes / static_cast<std::uint64_t>(num_ranks);
}

void consolidate(FileOperations& operations, const fs::path& checkpoint, const fs::path& output, const ConsolidateOptions& options,
                 comm::Communicator& group) {
  Manifest manifest;
  comm::together(group, [&] {
    manifest = read_manifest(checkpoint);
    refuse_damage(checkpoint, manifest, options.verify, share_of_rank(manifest, is_of_model, group.rank(), group.size()), options.progress);
  });
  consolidate(operations, {checkpoint, &manifest.model, checkpoint / "model"}, output, options, group);
}

void consolidate(FileOperations& operations, const ConsolidateSource& source, const fs::path& output, const ConsolidateOptions& options,
                 comm::Communicator& group) {
  std::optional<NewDirectory> directory;  // at rank 0
  comm::together(group, [&] {
    if (group.rank() == 0) directory.emplace(operations, output);
  });
  const fs::path aside = NewDirectory::aside(output);
  write_consolidated(operations, source, aside, options, group);
  comm::together(group, [&] {
    if (group.rank() != 0) return;
    write_consolidated_model_files(operations, source, aside, options);
    directory->complete();
  });
}

std::unique_ptr<formats::TensorSource> open_records_source(const fs::path& root, TensorRecords records) {
  return std::make_unique<CheckpointSource>(root, std::move(records));
}

std::unique_ptr<formats::TensorSource> open_checkpoint_source(const fs::path& checkpoint) {
  return open_records_source(checkpoint, read_manifest(checkpoint).model);
}

std::string config_with_dtype(const std::string& config_json, DType dtype, const std::string& where) {
  OrderedJson config = parse_ordered_json(config_json, where);
  if (!config.is_object())
    throw UserError(Problem{where, "config.json is not a JSON object", "", "copy the model's own config.json into the checkpoint"});
  const char* key = config.contains("dtype") && !config.contains("torch_dtype") ? "dtype" : "torch_dtype";
  config[key] = torch_name(dtype);
  config.erase("quantization_config");  // weights were dequantised as they were loaded
  return config.dump(2) + "\n";
}

}  // namespace tessera::checkpoint
