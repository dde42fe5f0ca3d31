#include "tessera/data/dataset/nanogpt_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/data/sampler.h"
#include "tessera/data/vocabulary.h"

namespace tessera::data {
namespace {

std::vector<std::filesystem::path> reordered(const std::vector<std::filesystem::path>& files) {
  const EpochOrder order(std::ssize(files), true, 0, 0);
  std::vector<std::filesystem::path> result;
  for (std::int64_t position = 0; position < std::ssize(files); ++position) result.push_back(files[static_cast<std::size_t>(order[position])]);
  return result;
}

}  // namespace

NanogptDataset::NanogptDataset(const std::vector<std::filesystem::path>& files, NanogptOptions options) : options_(options) {
  TESSERA_ASSERT(!files.empty() && options_.seq_length >= 1, "a dataset has files and a length");
  for (const auto& file : options_.shuffle_files ? reordered(files) : files) {
    const formats::NanogptShard& shard = shards_.emplace_back(file);
    num_tokens_ += shard.num_tokens();
    std::int64_t count = shard.num_tokens() / (options_.seq_length + 1);
    if (options_.align_to) {
      starts_.push_back(aligned_starts(shard));
      count = std::ssize(starts_.back());
    }
    first_.push_back(first_.back() + count);
  }
  if (size() == 0) {
    throw UserError({files.front().string(), fmt::format("no shard holds a sample of {} + 1 tokens", options_.seq_length),
                     options_.align_to ? fmt::format("a sample begins with token {}", *options_.align_to) : "", "use a smaller seq_len"});
  }
}

std::vector<std::int64_t> NanogptDataset::aligned_starts(const formats::NanogptShard& shard) const {
  const auto positions = formats::read_bos_index(shard);
  const auto next = [&](std::int64_t from) {
    if (!positions) return shard.find(*options_.align_to, from, shard.num_tokens());
    const auto found = std::ranges::lower_bound(*positions, from);
    return found == positions->end() ? shard.num_tokens() : *found;
  };
  std::vector<std::int64_t> starts;
  for (std::int64_t start = next(0); start + options_.seq_length < shard.num_tokens(); start = next(start + options_.seq_length + 1))
    starts.push_back(start);
  return starts;
}

Sample NanogptDataset::sample(std::int64_t index) const {
  const auto which = static_cast<std::size_t>(std::ranges::upper_bound(first_, index) - first_.begin() - 1);
  const std::int64_t within = index - first_[which];
  const std::int64_t start = options_.align_to ? starts_[which][static_cast<std::size_t>(within)] : within * (options_.seq_length + 1);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(options_.seq_length + 1));
  shards_[which].refuse_shortened();
  shards_[which].read(start, tokens);
  if (options_.vocab_size > 0) check_vocabulary(tokens, options_.vocab_size, fmt::format("{}: token {}", shards_[which].path().string(), start));
  Sample sample;
  sample.labels.assign(tokens.begin() + 1, tokens.end());
  tokens.pop_back();
  sample.input_ids = std::move(tokens);
  sample.number = index;
  return sample;
}

std::string NanogptDataset::description() const {
  return fmt::format("{} samples of {} from {} tokens in {} NanoGPT shard(s){}", size(), options_.seq_length,
                     human_count(static_cast<double>(num_tokens_)), shards_.size(),
                     options_.align_to ? fmt::format(", each from a token {} on", *options_.align_to) : "");
}

}  // namespace tessera::data
