#include "tessera/checkpoint/dcp_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tessera/checkpoint/shard.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/formats/safetensors.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

std::vector<fs::path> safetensors_files(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

constexpr const char* kDamaged = "copy the checkpoint's files again, or save it again where it was made";

/// The first folder that holds sharded weights, or a pickle.
std::optional<fs::path> find_folder(const fs::path& path, const auto& has) {
  for (const fs::path& folder : {path, path / "model", path / "sharded", path / "model" / "sharded"})
    if (has(folder)) return folder;
  return std::nullopt;
}

bool has_shards(const fs::path& folder) {
  const std::vector<fs::path> files = safetensors_files(folder);
  return !files.empty() && formats::SafetensorsFile(files.front()).metadata().contains(kShardingInfo);
}

bool has_pickle(const fs::path& folder) { return fs::is_regular_file(folder / ".metadata"); }

std::vector<std::int64_t> offset_of(const Json& sharding, const formats::TensorInfo& info, const std::string& where) try {
  if (!sharding.contains(info.name)) return std::vector<std::int64_t>(info.shape.size(), 0);  // not sharded
  auto offset = sharding.at(info.name).at("saved_offsets").get<std::vector<std::int64_t>>();
  // An empty tensor's header may claim any sizes.
  const auto impossible = [](std::int64_t elements) { return elements < 0 || elements > (std::int64_t{1} << 48); };
  if (offset.size() != info.shape.size() || std::ranges::any_of(offset, impossible) || std::ranges::any_of(info.shape, impossible))
    throw UserError(Problem{where, fmt::format("{}: impossible saved_offsets", info.name), "", kDamaged});
  return offset;
} catch (const Json::exception& error) {
  throw UserError(Problem{where, fmt::format("{}: no saved_offsets in {}: {}", info.name, kShardingInfo, error.what()), "", kDamaged});
}

/// The headers do not tell a tensor's global shape: it reaches as far as its boxes do. What several ranks hold alike may be written several times.
void add(TensorRecords& records, const formats::TensorInfo& info, BoxRecord box, const std::string& where) {
  TensorRecord& record = records.try_emplace(info.name, TensorRecord{info.dtype, info.shape, {}}).first->second;
  if (record.dtype != info.dtype || record.shape.size() != info.shape.size())
    throw UserError(Problem{where, fmt::format("{}: another dtype or number of dimensions than in other files", info.name), "", kDamaged});
  if (std::ranges::any_of(record.boxes, [&](const BoxRecord& other) { return other.offset == box.offset && other.size == box.size; })) return;
  for (std::size_t dim = 0; dim < box.size.size(); ++dim) record.shape[dim] = std::max(record.shape[dim], box.offset[dim] + box.size[dim]);
  record.boxes.push_back(std::move(box));
}

fs::path find_model_files(const fs::path& folder) {
  for (const fs::path& candidate : {folder, folder / ".hf_metadata", folder.parent_path(), folder.parent_path() / ".hf_metadata"})
    if (fs::is_regular_file(candidate / "config.json")) return candidate;
  throw UserError(Problem{folder.string(), "no config.json beside the shards, nor in .hf_metadata", "a model is its weights and its config.json",
                          "copy the config.json (and the tokenizer's files) of the model into this folder"});
}

}  // namespace

void add_dcp_file(TensorRecords& records, const std::vector<formats::TensorInfo>& tensors, const formats::StringMap& metadata, const fs::path& path) {
  const auto found = metadata.find(kShardingInfo);
  const Json sharding = found == metadata.end() ? Json::object() : parse_json(found->second, path.string() + ": " + kShardingInfo);
  for (const formats::TensorInfo& info : tensors)
    add(records, info, {path.filename().string(), offset_of(sharding, info, path.string()), info.shape, ""}, path.string());
}

bool is_dcp_directory(const fs::path& path) { return find_folder(path, has_shards) || find_folder(path, has_pickle); }

DcpDirectory read_dcp_directory(const fs::path& path) {
  const std::optional<fs::path> folder = find_folder(path, has_shards);
  if (!folder) {
    const std::optional<fs::path> pickle = find_folder(path, has_pickle);
    throw UserError(
        Problem{pickle.value_or(path).string(), "a distributed checkpoint whose .metadata is a Python pickle is not supported",
                "Tessera reads no pickles: reading one runs the code in it",
                "save it with torch.distributed.checkpoint's HuggingFaceStorageWriter (in AutoModel: model_save_format: safetensors), or turn it "
                "into safetensors where it was made"});
  }
  DcpDirectory directory{*folder, find_model_files(*folder), {}};
  for (const fs::path& path : safetensors_files(*folder)) {
    const formats::SafetensorsFile file(path);
    add_dcp_file(directory.model, file.tensors(), file.metadata(), path);
  }
  for (const auto& [name, record] : directory.model) check_boxes(name, record, folder->string());
  return directory;
}

}  // namespace tessera::checkpoint
