#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/formats/safetensors.h"
#include "tessera/formats/shard_size.h"

/// A model directory as Hugging Face lays it out: config.json, generation_config.json, tokenizer files, and the weights in
/// model.safetensors or in several shards that model.safetensors.index.json lists.
namespace tessera::formats {

/// config.json of the directory. UserError when the directory or the file is missing or is not a JSON object.
Json read_model_config(const std::filesystem::path& directory);

/// Paths of the tokenizer's files; nullopt for those the directory lacks.
struct TokenizerFiles {
  std::optional<std::filesystem::path> tokenizer_json;
  std::optional<std::filesystem::path> tokenizer_config_json;
  std::optional<std::filesystem::path> special_tokens_map_json;
  std::optional<std::filesystem::path> added_tokens_json;
  std::optional<std::filesystem::path> chat_template_jinja;
  std::optional<std::filesystem::path> vocab_json;           ///< GPT-2's older pair,
  std::optional<std::filesystem::path> merges_txt;           ///< … its merges
  std::optional<std::filesystem::path> sentencepiece_model;  ///< tokenizer.model (or spiece.model)

  /// Those that exist: what a checkpoint copies in addition to its weights.
  std::vector<std::filesystem::path> existing() const;
};
TokenizerFiles find_tokenizer_files(const std::filesystem::path& directory);

/// Whether the directory holds weights: model.safetensors or its index.
bool has_weights(const std::filesystem::path& directory);

/// The weights of a model directory: every shard mapped and checked. Const members may be called from several threads.
class HuggingFaceDirectory {
 public:
  struct Entry {
    std::size_t file = 0;  ///< index into files()
    TensorInfo info;
  };

  /// Refuses (UserError, everything found at once): no weights; a shard that is missing, broken or lies outside the directory; a tensor that the
  /// index names and its shard lacks, or that a shard holds and the index does not name there; a tensor held twice.
  explicit HuggingFaceDirectory(const std::filesystem::path& directory);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// All tensors, file after file in the order of their bytes.
  const std::vector<Entry>& tensors() const { return tensors_; }
  /// nullptr when there is none of that name.
  const Entry* find(std::string_view name) const;
  std::span<const std::byte> bytes(const Entry& entry) const { return files_[entry.file].bytes(entry.info); }

 private:
  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::vector<Entry> tensors_;
  std::map<std::string_view, std::size_t> index_by_name_;
};

/// Which tensors go to which file. Printable data: nothing is written yet.
struct ShardPlan {
  struct Shard {
    std::string file_name;
    std::vector<TensorSpec> tensors;
  };
  std::vector<Shard> shards;
  std::uint64_t total_size = 0;        ///< bytes of all tensors
  std::uint64_t total_parameters = 0;  ///< elements of all tensors
};

/// Fills shards in the given order as transformers does: a new shard when the next tensor would pass `max_shard_size`, a tensor larger than that
/// alone in its own. One shard is "model.safetensors", several are "model-00001-of-0000N.safetensors".
ShardPlan plan_shards(const std::vector<TensorSpec>& tensors, std::uint64_t max_shard_size = kDefaultMaxShardSize);
/// model.safetensors.index.json for a plan, as transformers writes it.
std::string shard_index_json(const ShardPlan& plan);

/// Takes the next bytes of one tensor.
using ByteSink = std::function<void(std::span<const std::byte>)>;
/// Hands a tensor's bytes to the sink, in one piece or several, in order and completely.
using TensorProducer = std::function<void(const TensorSpec& tensor, const ByteSink& sink)>;

/// Writes the shards of a plan into an existing directory one after another, each tensor asked for once in the order of its file; then the index when
/// there are several. Files are synced, the directory is not: the caller decides when the whole is complete. Throws Failure when writing fails.
void write_shards(FileOperations& operations, const std::filesystem::path& directory, const ShardPlan& plan, const TensorProducer& producer,
                  const StringMap& metadata = {{"format", "pt"}});

}  // namespace tessera::formats
