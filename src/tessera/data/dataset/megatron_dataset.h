#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/dataset/dataset.h"
#include "tessera/data/dataset/megatron_cache.h"
#include "tessera/data/dataset/megatron_sampling.h"
#include "tessera/formats/megatron.h"

namespace tessera::data {

enum class MegatronSplit : std::uint8_t { Train, Validation, Test };

struct MegatronOptions {
  /// Prefixes of .bin/.idx pairs, or patterns of them; weights between them make a blend: {"30", "a", "70", "b"}.
  std::vector<std::string> paths;
  std::optional<std::string> split = "900,50,50";  ///< shares; nullopt: the files are this split's alone
  MegatronSplit which = MegatronSplit::Train;
  std::int64_t seq_length = 2048;
  std::optional<std::int64_t> num_samples = std::nullopt;  ///< nullopt: one epoch
  std::uint32_t seed = 1234;
  std::filesystem::path cache = {};  ///< where indices are kept for the next run; empty: nowhere
  int num_threads = 1;
  std::int64_t vocab_size = 0;  ///< rows of the model's embedding; 0: not checked
};

/// AutoModel's MegatronPretraining over local files: the samples of Megatron-LM, in its order, for the same seed. Samples are not padded, and
/// documents in a sample see each other. Files are mapped, and so are the indices (4 bytes for each document and 24 for each
/// sample).
class MegatronDataset final : public Dataset {
 public:
  /// UserError for files that are missing or damaged, shares or weights that are impossible, and splits too small for a sample.
  explicit MegatronDataset(MegatronOptions options);
  std::int64_t size() const override;
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  struct Part {
    formats::MegatronFile file;
    StoredSampling sampling;
  };
  Sample part_sample(const Part& part, std::int64_t index) const;
  void build_parts(const std::vector<std::filesystem::path>& prefixes, const std::vector<std::optional<std::int64_t>>& num_samples);

  MegatronOptions options_;
  std::vector<std::unique_ptr<const Part>> parts_;
  std::optional<Blend> blend_;
  std::int64_t size_ = 0;
};

}  // namespace tessera::data
