#include "tessera/checkpoint/shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "tessera/checkpoint/hash.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

std::string shard_path(const std::string& folder, ShardOwner owner, std::size_t part) {
  const std::string suffix = part == 0 ? "" : fmt::format("-part-{:05}", part + 1);
  return fmt::format("{}/shard-{:05}-of-{:05}{}.safetensors", folder, owner.rank + 1, owner.world_size, suffix);
}

formats::StringMap shard_metadata(const ShardFile& file) {
  Json offsets = Json::object();
  for (const TensorBox& box : file.boxes) offsets[box.tensor.name] = {{"saved_offsets", box.offset}};
  return {{kShardingInfo, offsets.dump()}, {"DCP_VERSION", "1.0"}, {"format", "pt"}};
}

TensorRecord record_of(const TensorBox& box, const std::string& file, const std::string& xxh3) {
  return {box.tensor.dtype, box.tensor.shape, {{file, box.offset, box.size, xxh3}}};
}

TensorRecords write_shard_file(FileOperations& operations, const fs::path& checkpoint, const ShardFile& file, const ReadBox& read) {
  std::map<std::string, const TensorBox*> boxes;
  std::vector<formats::TensorSpec> specs;
  for (const TensorBox& box : file.boxes) {
    boxes[box.tensor.name] = &box;
    specs.push_back({box.tensor.name, box.tensor.dtype, box.size});
  }
  TensorRecords records;
  formats::SafetensorsWriter writer(operations, checkpoint / file.path, specs, shard_metadata(file));
  for (const formats::TensorInfo& info : writer.tensors()) {
    const TensorBox& box = *boxes.at(info.name);
    Hasher hasher;
    read(box, [&](std::span<const std::byte> bytes) { update_beside(hasher, bytes, [&] { writer.write(info.name, bytes); }); });
    records.emplace(info.name, record_of(box, file.path, hasher.hex()));
  }
  writer.finish();
  return records;
}

// The tensor as this shard holds it, checked against what the manifest says.
const formats::TensorInfo& stored_tensor(const formats::SafetensorsFile& file, const std::string& name, DType dtype, const BoxRecord& box) {
  const formats::TensorInfo* info = file.find(name);
  const auto refuse = [&](const std::string& what) {
    throw UserError(Problem{file.path().string(), fmt::format("{}: {}", name, what), "", "choose another checkpoint: this one is damaged"});
  };
  if (info == nullptr) refuse("the manifest names this tensor, the file lacks it");
  if (info->dtype != dtype || info->shape != box.size)
    refuse(fmt::format("{} {} where the manifest says {} {}", to_string(info->dtype), info->shape, to_string(dtype), box.size));
  return *info;
}

}  // namespace

std::vector<ShardFile> plan_shard_files(const std::string& folder, ShardOwner owner, std::vector<TensorBox> boxes) {
  std::vector<ShardFile> files;
  std::map<std::string, std::size_t> parts;  // how many boxes of this tensor have a file already
  for (TensorBox& box : merge_entries(std::move(boxes))) {
    const std::size_t part = parts[box.tensor.name]++;
    if (part == files.size()) files.push_back({shard_path(folder, owner, part), {}});
    files[part].boxes.push_back(std::move(box));
  }
  return files;
}

TensorRecords write_shard_files(FileOperations& operations, const fs::path& checkpoint, const std::vector<ShardFile>& files, const ReadBox& read) {
  TensorRecords records;
  for (const ShardFile& file : files) merge(records, write_shard_file(operations, checkpoint, file, read));
  return records;
}

ShardReader::ShardReader(fs::path checkpoint, const TensorRecords& records) : checkpoint_(std::move(checkpoint)), records_(records) {}

const formats::SafetensorsFile& ShardReader::file(const std::string& name) {
  const auto found = files_.find(name);
  return found != files_.end() ? found->second : files_.emplace(name, formats::SafetensorsFile(checkpoint_ / name)).first->second;
}

void ShardReader::read(const TensorBox& target) {
  const TensorRecord& record = records_.at(target.tensor.name);
  std::uint64_t copied = 0;
  for (const BoxRecord& box : record.boxes) {
    if (!intersects(box.offset, box.size, target)) continue;  // its file stays closed
    const formats::SafetensorsFile& shard = file(box.file);
    const formats::TensorInfo& info = stored_tensor(shard, target.tensor.name, record.dtype, box);
    copied += copy_common({record.dtype, box.offset, box.size, shard.bytes(info)}, target,
                          [&](std::size_t begin, std::size_t end) { shard.drop(info.begin + begin, info.begin + end); });
  }
  TESSERA_ASSERT(copied == target.num_elements(), "the boxes of a manifest cover their tensor");
}

}  // namespace tessera::checkpoint
