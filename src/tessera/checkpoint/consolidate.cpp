#include "tessera/checkpoint/consolidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/files.h"
#include "tessera/checkpoint/shard.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/formats/huggingface.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

constexpr std::uint64_t kChunkBytes = std::uint64_t{8} << 20;

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

void stream_tensor(ShardReader& reader, const formats::TensorSpec& tensor, const formats::ByteSink& sink) {
  const std::int64_t num_rows = tensor.shape.empty() ? 1 : tensor.shape[0];
  const std::uint64_t row_bytes = num_rows == 0 ? 0 : formats::num_bytes(tensor) / static_cast<std::uint64_t>(num_rows);
  if (row_bytes == 0) return;
  const auto rows_at_once = static_cast<std::int64_t>(std::max<std::uint64_t>(1, kChunkBytes / row_bytes));
  std::vector<std::byte> chunk;
  for (std::int64_t row = 0; row < num_rows; row += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, num_rows - row);
    chunk.resize(static_cast<std::size_t>(count) * row_bytes);
    reader.read(rows_of(tensor, tensor.dtype, row, count, chunk.data()));
    sink(chunk);
  }
}

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

}  // namespace

std::unique_ptr<formats::TensorSource> open_checkpoint_source(const fs::path& checkpoint) {
  return std::make_unique<CheckpointSource>(checkpoint, read_manifest(checkpoint).model);
}

void write_consolidated(FileOperations& operations, const fs::path& checkpoint, const TensorRecords& model, const fs::path& output,
                        const ConsolidateOptions& options) {
  std::vector<formats::TensorSpec> specs = specs_of(model);
  if (options.dtype)
    for (formats::TensorSpec& spec : specs) spec.dtype = *options.dtype;
  ShardReader reader(checkpoint, model);
  formats::write_shards(operations, output, formats::plan_shards(specs, options.max_shard_size),
                        [&](const formats::TensorSpec& tensor, const formats::ByteSink& sink) { stream_tensor(reader, tensor, sink); });
  copy_model_files(operations, checkpoint / "model", output, options.dtype);
}

void consolidate(FileOperations& operations, const fs::path& checkpoint, const fs::path& output, const ConsolidateOptions& options) {
  const Manifest manifest = read_manifest(checkpoint);
  if (fs::exists(output)) throw UserError(Problem{output.string(), "exists already", "nothing is overwritten", "remove it or choose another name"});
  fs::path aside = fs::absolute(output).lexically_normal();
  if (!aside.has_filename()) aside = aside.parent_path();
  const fs::path target = aside;
  aside.replace_filename("." + target.filename().string() + ".saving");
  RemoveUnlessKept half_written(operations, aside);
  operations.remove_all(aside);
  operations.create_directory(aside);
  write_consolidated(operations, checkpoint, manifest.model, aside, options);
  operations.sync_directory(aside);
  operations.rename(aside, target);
  half_written.keep();
  operations.sync_directory(target.parent_path());
}

std::string config_with_dtype(const std::string& config_json, DType dtype, const std::string& where) {
  OrderedJson config = parse_ordered_json(config_json, where);
  if (!config.is_object()) throw UserError(Problem{where, "config.json is not a JSON object", "", ""});
  const char* key = config.contains("dtype") && !config.contains("torch_dtype") ? "dtype" : "torch_dtype";
  config[key] = torch_name(dtype);
  return config.dump(2) + "\n";
}

}  // namespace tessera::checkpoint
