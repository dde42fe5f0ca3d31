#include "tessera/data/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/data/lengths.h"

namespace tessera::data {
namespace {

using Packs = std::vector<std::vector<std::int64_t>>;

/// The documents that fit into a pack at all, in the dataset's order.
std::vector<std::int64_t> fitting_documents(std::span<const std::int32_t> lengths, const PackingOptions& options) {
  std::vector<std::int64_t> fitting;
  std::int64_t first_too_long = -1;
  for (std::int64_t index = 0; index < std::ssize(lengths); ++index) {
    if (lengths[static_cast<std::size_t>(index)] <= options.size) {
      fitting.push_back(index);
    } else if (first_too_long < 0) {
      first_too_long = index;
    }
  }
  if (first_too_long >= 0 && !options.drop_long) {
    throw UserError(
        {"",
         fmt::format("{} sample(s) are longer than a pack of {} tokens, the first is number {} with {}", std::ssize(lengths) - std::ssize(fitting),
                     options.size, first_too_long, lengths[static_cast<std::size_t>(first_too_long)]),
         "a document is never split over two packs", "raise packed_sequence_size, truncate samples, or set drop_long_samples: true"});
  }
  return fitting;
}

bool full(const Packs& packs, const PackingOptions& options) { return options.max_packs && std::ssize(packs) >= *options.max_packs; }

Packs pack_in_order(const std::vector<std::int64_t>& documents, std::span<const std::int32_t> lengths, const PackingOptions& options) {
  Packs packs;
  std::int64_t filled = options.size;  // as if a full pack came before the first
  for (const std::int64_t document : documents) {
    const std::int64_t length = lengths[static_cast<std::size_t>(document)];
    if (filled + length > options.size) {
      if (full(packs, options)) break;
      packs.emplace_back();
      filled = 0;
    }
    packs.back().push_back(document);
    filled += length;
  }
  return packs;
}

/// When the least-filled pack has no room, no other has: the search ends at the top of the heap. All documents are placed before max_packs cuts, so
/// that the packs that are kept are as full as without it.
Packs pack_balanced(std::vector<std::int64_t> documents, std::span<const std::int32_t> lengths, const PackingOptions& options) {
  const auto length_of = [&](std::int64_t document) { return lengths[static_cast<std::size_t>(document)]; };
  std::ranges::stable_sort(documents, [&](std::int64_t a, std::int64_t b) { return length_of(a) > length_of(b); });
  using Fill = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Fill, std::vector<Fill>, std::greater<>> least_filled;
  Packs packs;
  for (const std::int64_t document : documents) {
    Fill place{0, packs.size()};
    if (!least_filled.empty() && least_filled.top().first + length_of(document) <= options.size) {
      place = least_filled.top();
      least_filled.pop();
    } else {
      packs.emplace_back();
    }
    packs[place.second].push_back(document);
    least_filled.emplace(place.first + length_of(document), place.second);
  }
  if (options.max_packs && std::ssize(packs) > *options.max_packs) packs.resize(static_cast<std::size_t>(*options.max_packs));
  return packs;
}

}  // namespace

PackingPlan plan_packs(std::span<const std::int32_t> lengths, const PackingOptions& options) {
  std::vector<std::int64_t> documents = fitting_documents(lengths, options);
  if (documents.empty()) {
    throw UserError({"", fmt::format("no sample fits into a pack of {} tokens", options.size), "training needs at least one pack",
                     "raise packed_sequence_size, or truncate the samples"});
  }
  PackingPlan plan;
  plan.num_too_long = std::ssize(lengths) - std::ssize(documents);
  const auto num_fitting = std::ssize(documents);
  const Packs packs = options.strategy == PackingStrategy::InOrder ? pack_in_order(documents, lengths, options)
                                                                   : pack_balanced(std::move(documents), lengths, options);
  plan.starts.push_back(0);
  for (const auto& pack : packs) {
    plan.documents.insert(plan.documents.end(), pack.begin(), pack.end());
    plan.starts.push_back(std::ssize(plan.documents));
  }
  plan.num_unused = num_fitting - std::ssize(plan.documents);
  for (const std::int64_t document : plan.documents) plan.num_tokens += lengths[static_cast<std::size_t>(document)];
  return plan;
}

PackedDataset::PackedDataset(std::shared_ptr<const Dataset> documents, PackingOptions options, int num_threads)
    : documents_(std::move(documents)), options_(options), plan_(plan_packs(sample_lengths(*documents_, num_threads), options_)) {}

Sample PackedDataset::sample(std::int64_t index) const {
  const auto pack = static_cast<std::size_t>(index);
  Sample packed;
  packed.padded_length = options_.size;
  for (auto* row : {&packed.input_ids, &packed.labels}) row->reserve(static_cast<std::size_t>(options_.size));
  packed.number = index;
  for (std::int64_t at = plan_.starts[pack]; at < plan_.starts[pack + 1]; ++at) {
    const Sample document = documents_->sample(plan_.documents[static_cast<std::size_t>(at)]);
    packed.document_starts.push_back(std::ssize(packed.input_ids));
    packed.input_ids.insert(packed.input_ids.end(), document.input_ids.begin(), document.input_ids.end());
    packed.labels.insert(packed.labels.end(), document.labels.begin(), document.labels.end());
  }
  return packed;
}

std::string PackedDataset::description() const {
  const auto num_packs = static_cast<double>(plan_.num_packs());
  const double filled = static_cast<double>(plan_.num_tokens) / num_packs;
  std::string text = fmt::format("{} packs of {} tokens with {} samples: {:.1f} tokens a pack, {:.1f} % padding", plan_.num_packs(), options_.size,
                                 plan_.documents.size(), filled, 100.0 * (1.0 - filled / static_cast<double>(options_.size)));
  if (plan_.num_too_long > 0) text += fmt::format("; {} sample(s) longer than a pack left out", plan_.num_too_long);
  if (plan_.num_unused > 0) text += fmt::format("; {} beyond max_packs left out", plan_.num_unused);
  return text + "; " + documents_->description();
}

}  // namespace tessera::data
