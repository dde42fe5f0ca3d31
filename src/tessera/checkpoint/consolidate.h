#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/files.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/checkpoint/verify.h"
#include "tessera/comm/communicator.h"
#include "tessera/core/dtype.h"
#include "tessera/core/file.h"
#include "tessera/formats/shard_size.h"
#include "tessera/formats/tensor_source.h"

/// A checkpoint's weights as other programs want them.
namespace tessera::checkpoint {

struct ConsolidateOptions {
  std::uint64_t max_shard_size = formats::kDefaultMaxShardSize;  ///< bytes of a file
  std::optional<DType> dtype = {};                               ///< absent: as saved
  Verify verify = Verify::Full;                                  ///< of a checkpoint's files (refuse_damage); other sources have no hashes
  Progress progress = {};                                        ///< of the bytes this rank hashes first, then of those it writes
};

/// The weights of model/ under their Hugging Face names, assembled from whatever boxes they were saved in: for conversion and generation.
/// UserError when `checkpoint` is not a complete checkpoint.
std::unique_ptr<formats::TensorSource> open_checkpoint_source(const std::filesystem::path& checkpoint);
/// The same of any records: the files lie in `root`.
std::unique_ptr<formats::TensorSource> open_records_source(const std::filesystem::path& root, TensorRecords records);

/// The ranks of `group` together write a Hugging Face directory (weights in shards, index, config.json, tokenizer files) that is complete when
/// `output` appears. Streams: no more than some MiB are in memory. UserError when `checkpoint` is not complete or damaged, or `output` exists;
/// Failure when writing fails. Every rank calls it; where one fails, all throw.
void consolidate(FileOperations& operations, const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                 const ConsolidateOptions& options, comm::Communicator& group);
/// About how many bytes `options.progress` will be told of, at each of `num_ranks` ranks.
std::uint64_t bytes_to_consolidate(const Manifest& manifest, const ConsolidateOptions& options, int num_ranks);

/// Where consolidated weights come from.
struct ConsolidateSource {
  std::filesystem::path root;         ///< what the records' files are relative to
  const TensorRecords* model;         ///< its boxes' files are written, whether or not a manifest says so
  std::filesystem::path model_files;  ///< the folder of config.json, tokenizer and generation files
};
/// The same from any source.
void consolidate(FileOperations& operations, const ConsolidateSource& source, const std::filesystem::path& output, const ConsolidateOptions& options,
                 comm::Communicator& group);

/// Bytes [begin, end) of one of several files.
struct FilePart {
  std::size_t file = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool operator==(const FilePart&) const = default;
};
/// What one of `num_ranks` ranks writes of files of these sizes: all ranks nearly the same number of bytes, in parts that begin where a block of the
/// hash does (hash.h).
std::vector<FilePart> parts_of_rank(const std::vector<std::uint64_t>& sizes, int rank, int num_ranks);

/// The ranks of `group` together write the weights into `output`, a directory that exists and is empty; each writes its parts of the files, whoever
/// holds the tensors in them, so no rank holds the model. Files are synced, the directory is not. Returns, at every rank, the weight files by path
/// relative to `output`. Every rank calls it; where one fails, all throw.
std::map<std::string, FileRecord> write_consolidated(FileOperations& operations, const ConsolidateSource& source, const std::filesystem::path& output,
                                                     const ConsolidateOptions& options, comm::Communicator& group);
/// The other files of the directory: the index when there are several weight files, config.json, tokenizer and generation files.
void write_consolidated_model_files(FileOperations& operations, const ConsolidateSource& source, const std::filesystem::path& output,
                                    const ConsolidateOptions& options);

/// The text of config.json with "torch_dtype" (or "dtype") set to `dtype`; everything else stays as it is.
std::string config_with_dtype(const std::string& config_json, DType dtype, const std::string& where);

}  // namespace tessera::checkpoint
