#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/files.h"
#include "tessera/checkpoint/signature.h"
#include "tessera/core/dtype.h"
#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/json.h"

/// manifest.json: what a complete checkpoint consists of.
namespace tessera::checkpoint {

/// A file's size and content hash (hash.h: over its blocks; 16 hexadecimal digits).
struct FileRecord {
  std::uint64_t size = 0;
  std::string xxh3;
};

/// One box of a tensor as it lies in a file. A file holds at most one box of a tensor, under the tensor's name.
struct BoxRecord {
  std::string file;  ///< relative to the checkpoint
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> size;
  std::string xxh3;  ///< of the box's bytes
};

struct TensorRecord {
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;  ///< of the whole tensor
  std::vector<BoxRecord> boxes;     ///< disjoint; together the whole tensor
};
using TensorRecords = std::map<std::string, TensorRecord>;
/// Puts the boxes that one rank wrote beside those of others.
void merge(TensorRecords& into, const TensorRecords& from);

/// UserError at `where` unless the boxes lie inside the tensor, in different files, and cover it exactly.
void check_boxes(const std::string& name, const TensorRecord& tensor, const std::string& where);

/// The lowest validation metric of a run's checkpoints.
struct BestValidation {
  double metric = 0.0;
  std::int64_t step = 0;
  std::string checkpoint;  ///< its path, absolute

  bool operator==(const BestValidation&) const = default;
};

struct Manifest {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  ModelSignature signature;
  std::int64_t optimizer_steps = 0;
  std::optional<double> validation_metric;        ///< of these very weights
  std::optional<BestValidation> best_validation;  ///< up to and with this one; earlier versions did not say
  Json layout = Json::object();                   ///< how the run was split: {"world_size": 1, …}
  Json versions = Json::object();                 ///< of the programs that wrote it
  std::map<std::string, FileRecord> files;        ///< every file but the manifest, by path relative to the checkpoint
  TensorRecords model;                            ///< by Hugging Face name
  TensorRecords optim;                            ///< "master.NAME", "exp_avg.NAME", "exp_avg_sq.NAME"
};

/// The files one rank wrote, and where in them its boxes lie.
struct RankRecords {
  std::map<std::string, FileRecord> files;
  TensorRecords model;
  TensorRecords optim;
};
/// As text, for the rank that writes the manifest, and back.
std::string to_text(const RankRecords& records);
RankRecords rank_records_from_text(std::string_view text);
/// Puts what one rank wrote beside what others did.
void merge(Manifest& into, const RankRecords& from);

/// The text of manifest.json; it ends with a hash of itself.
std::string to_text(const Manifest& manifest);
/// The same, to be written. Failure when the boxes of all ranks overlap or leave holes: they have not saved a whole model, which is better known
/// before it takes an earlier one's place.
std::string checked_text(const Manifest& manifest);
/// A manifest's text from all of it but the end: its last line and the closing brace.
std::string sealed(std::string_view body);
/// Reads it back. UserError at `where` for a text that is damaged, of a newer version, or lies: boxes outside their tensor, that overlap or leave
/// holes, two of one tensor in a file, a file that is not listed or lies outside the checkpoint.
Manifest manifest_from_text(std::string_view text, const std::string& where);
/// manifest.json of a checkpoint; UserError when it is not one.
Manifest read_manifest(const std::filesystem::path& checkpoint);

}  // namespace tessera::checkpoint
