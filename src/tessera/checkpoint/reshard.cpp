#include "tessera/checkpoint/reshard.h"

#include <fmt/format.h>

#include <utility>

#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/checkpoint/recording_operations.h"
#include "tessera/checkpoint/shard.h"
#include "tessera/core/error.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

/// A piece of a tensor, without memory yet.
TensorBox box_of(const model::Piece& piece, const std::string& name, const TensorRecord& record) {
  TensorBox box{{name, record.dtype, record.shape}, piece.offset, piece.size, nullptr, piece.size};
  make_row_major(box);
  return box;
}

std::vector<TensorBox> model_boxes(const Pieces& pieces, const TensorRecords& model, const fs::path& checkpoint) {
  std::vector<TensorBox> boxes;
  for (const model::PlacedPiece& placed : pieces) {
    const auto found = model.find(placed.piece.tensor);
    if (found == model.end() || found->second.shape != placed.piece.tensor_shape)
      throw UserError(Problem{checkpoint.string(),
                              fmt::format("{} of the layout's model is not in the checkpoint in that shape", placed.piece.tensor), "",
                              "reshard with the configuration of the model that was saved"});
    boxes.push_back(box_of(placed.piece, found->first, found->second));
  }
  return boxes;
}

/// Moments and masters are cut as their weights are.
std::vector<TensorBox> optimizer_boxes(const Pieces& pieces, const TensorRecords& optim) {
  std::vector<TensorBox> boxes;
  for (const model::PlacedPiece& placed : pieces)
    for (const char* prefix : {kFirstMoment, kSecondMoment, kMaster})
      if (const auto found = optim.find(prefix + placed.piece.tensor); found != optim.end())
        boxes.push_back(box_of(placed.piece, found->first, found->second));
  return boxes;
}

/// Reads a box when it is to be written.
ReadBox reading(ShardReader& reader, const Progress& progress) {
  return [&reader, &progress](const TensorBox& box, const std::function<void(std::span<const std::byte>)>& sink) {
    std::vector<std::byte> memory(box.num_elements() * size_of(box.tensor.dtype));
    TensorBox target = box;
    target.memory = memory.data();
    reader.read(target);
    sink(memory);
    if (progress) progress(memory.size());
  };
}

bool is_kept(const std::string& file) { return !is_consolidated(file); }

void copy_others(FileOperations& operations, const fs::path& checkpoint, const fs::path& output, const Manifest& manifest) {
  for (const auto& [name, record] : manifest.files)
    if (!name.ends_with(".safetensors") && is_kept(name)) copy_file(operations, checkpoint / name, output / name);
}

std::uint64_t num_bytes(const TensorRecords& records) {
  std::uint64_t bytes = 0;
  for (const auto& [name, record] : records) bytes += formats::num_elements(record.shape) * size_of(record.dtype);
  return bytes;
}

}  // namespace

std::uint64_t bytes_to_reshard(const Manifest& manifest, Verify verify) {
  return bytes_to_hash(manifest, verify, is_kept) + num_bytes(manifest.model) + num_bytes(manifest.optim);
}

void reshard(FileOperations& operations, const fs::path& checkpoint, const fs::path& output, const ReshardLayout& layout,
             const ReshardOptions& options) {
  const Manifest manifest = read_manifest(checkpoint);
  refuse_damage(checkpoint, manifest, options.verify, is_kept, options.progress);
  NewDirectory directory(operations, output);
  RecordingFileOperations recorder(operations, directory.aside());
  ShardReader model(checkpoint, manifest.model);
  ShardReader optim(checkpoint, manifest.optim);
  Manifest written = manifest;
  written.layout = layout.description;
  written.model.clear();
  written.optim.clear();
  for (const char* folder : {"model", "optim"}) operations.create_directory(directory.aside() / folder);
  for (std::int64_t rank = 0; rank < layout.num_ranks; ++rank) {
    const Pieces pieces = layout.owned_pieces(rank);
    const auto write = [&](const char* folder, std::vector<TensorBox> boxes, ShardReader& reader) {
      return write_shard_files(recorder, directory.aside(), plan_shard_files(folder, {rank, layout.num_ranks}, std::move(boxes)),
                               reading(reader, options.progress));
    };
    merge(written.model, write("model", model_boxes(pieces, manifest.model, checkpoint), model));
    merge(written.optim, write("optim", optimizer_boxes(pieces, manifest.optim), optim));
  }
  copy_others(recorder, checkpoint, directory.aside(), manifest);
  for (const char* folder : {"model", "optim"}) operations.sync_directory(directory.aside() / folder);
  written.files = recorder.files();
  write_text(operations, directory.aside() / kManifestName, checked_text(written));
  directory.complete();
}

}  // namespace tessera::checkpoint
