#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/dataset/dataset.h"
#include "tessera/formats/nanogpt.h"

namespace tessera::data {

struct NanogptOptions {
  std::int64_t seq_length = 0;
  /// Every sample begins with this token; what lies between a sample's end and the next one is not trained on.
  std::optional<std::int64_t> align_to = std::nullopt;
  bool shuffle_files = false;   ///< another order of the shards than their names', always the same
  std::int64_t vocab_size = 0;  ///< rows of the model's embedding; 0: not checked
};

/// AutoModel's NanogptDataset, with an end: each shard is cut into pieces of seq_length + 1 tokens, of which the last is only predicted; what is left
/// at a shard's end is not used. Positions of BOS tokens come from NAME.bos.idx where there is one, else from a search at construction. Shards are
/// mapped.
class NanogptDataset final : public Dataset {
 public:
  /// UserError for shards that are damaged, or too short for one sample.
  NanogptDataset(const std::vector<std::filesystem::path>& files, NanogptOptions options);
  std::int64_t size() const override { return first_.back(); }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  std::vector<std::int64_t> aligned_starts(const formats::NanogptShard& shard) const;

  NanogptOptions options_;
  std::vector<formats::NanogptShard> shards_;
  std::vector<std::vector<std::int64_t>> starts_;  ///< of each shard's samples, when aligned
  std::vector<std::int64_t> first_ = {0};          ///< [shards + 1]: samples before each shard
  std::int64_t num_tokens_ = 0;
};

}  // namespace tessera::data
