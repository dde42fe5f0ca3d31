#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/checkpoint/box.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/core/file.h"
#include "tessera/formats/safetensors.h"

/// Shard files: safetensors whose header says where in the global tensor each of its tensors lies, in the form of PyTorch's distributed checkpoints
/// (torch.distributed.checkpoint.HuggingFaceStorageWriter): metadata "DCP_SHARDING_INFO" is JSON, {NAME: {"saved_offsets": [offset per dim]}}.
namespace tessera::checkpoint {

inline constexpr const char* kShardingInfo = "DCP_SHARDING_INFO";

/// Who writes: shards are numbered by it.
struct ShardOwner {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
};

/// Which boxes of one rank go to which file.
struct ShardFile {
  std::string path;  ///< relative to the checkpoint: "model/shard-00001-of-00004.safetensors"
  std::vector<TensorBox> boxes;
};
/// A header holds one offset per name, so a rank's second box of a tensor goes to a second file ("…-part-00002.safetensors"), and so on.
std::vector<ShardFile> plan_shard_files(const std::string& folder, ShardOwner owner, std::vector<TensorBox> boxes);
/// Hands a box's elements, row-major, to the sink, in one piece or several.
using ReadBox = std::function<void(const TensorBox& box, const std::function<void(std::span<const std::byte>)>& sink)>;
/// Writes the files (their folder exists) and returns what the manifest says of them. Boxes come from memory, or from where `read` takes them.
/// Throws Failure.
TensorRecords write_shard_files(FileOperations& operations, const std::filesystem::path& checkpoint, const std::vector<ShardFile>& files,
                                const ReadBox& read = stream_bytes);

/// Reads boxes of the tensors that `records` describes, whatever boxes they were saved in.
class ShardReader {
 public:
  /// Both must outlive the reader.
  ShardReader(std::filesystem::path checkpoint, const TensorRecords& records);
  /// Fills the target's memory, converting to its dtype; opens the files that hold some of it. UserError when one is missing, malformed or not what
  /// the manifest says. The tensor must be in the records with the target's global shape, and convertible.
  void read(const TensorBox& target);

 private:
  const formats::SafetensorsFile& file(const std::string& name);

  std::filesystem::path checkpoint_;
  const TensorRecords& records_;
  std::map<std::string, formats::SafetensorsFile> files_;
};

}  // namespace tessera::checkpoint
