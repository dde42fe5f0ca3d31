#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/config/sections/data.h"
#include "tessera/data/dataset/dataset.h"

namespace tessera::data {

using config::PackingStrategy;

struct PackingOptions {
  std::int64_t size = 0;  ///< tokens of a pack
  PackingStrategy strategy = PackingStrategy::InOrder;
  std::optional<std::int64_t> max_packs = std::nullopt;
  bool drop_long = false;  ///< leave out documents longer than a pack; without it they are a UserError
};

/// Which documents lie in which pack: pack p holds documents[starts[p]] … documents[starts[p + 1] − 1], in this order. A function of lengths and
/// options alone, so packs do not depend on how training is split.
struct PackingPlan {
  std::vector<std::int64_t> documents;  ///< indices into the dataset
  std::vector<std::int64_t> starts;     ///< [num_packs + 1]
  std::int64_t num_tokens = 0;          ///< in all packs
  std::int64_t num_too_long = 0;        ///< documents longer than a pack, left out
  std::int64_t num_unused = 0;          ///< documents that found no place within max_packs

  std::int64_t num_packs() const { return static_cast<std::int64_t>(starts.size()) - 1; }
};

/// UserError when a document is too long and not to be dropped, or when no pack comes about.
PackingPlan plan_packs(std::span<const std::int32_t> lengths, const PackingOptions& options);

/// A dataset whose samples are packs of another's: documents end to end, their boundaries kept, padded to the pack's size. Construction tokenises
/// every document once to learn its length; only lengths are kept, and a pack's documents are made again when it is asked for.
class PackedDataset final : public Dataset {
 public:
  PackedDataset(std::shared_ptr<const Dataset> documents, PackingOptions options, int num_threads);
  std::int64_t size() const override { return plan_.num_packs(); }
  Sample sample(std::int64_t index) const override;
  /// Also reports tokens per pack, the share of padding, and what was left out.
  std::string description() const override;
  const PackingPlan& plan() const { return plan_; }

 private:
  std::shared_ptr<const Dataset> documents_;
  PackingOptions options_;
  PackingPlan plan_;
};

}  // namespace tessera::data
