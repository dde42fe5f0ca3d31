#include "tessera/data/dataset/megatron_dataset.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/data/dataset/for_each_index.h"
#include "tessera/data/dataset/megatron_cache.h"
#include "tessera/data/vocabulary.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

/// Samples made beyond a part's share of a blend, as Megatron-LM's mid_level_dataset_surplus.
constexpr double kSurplus = 0.005;

std::optional<double> as_number(const std::string& text) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// The prefix itself, or every prefix that the pattern matches.
std::vector<fs::path> prefixes_of(const std::string& path) {
  const auto without_ending = [](fs::path file) {
    return file.extension() == ".bin" || file.extension() == ".idx" ? file.replace_extension() : file;
  };
  const fs::path prefix = without_ending(path);
  if (fs::exists(prefix.string() + ".idx")) return {prefix};
  std::set<fs::path> found;
  glob_t matches{};
  for (const std::string& pattern : {path, path + ".idx"}) {
    if (::glob(pattern.c_str(), 0, nullptr, &matches) == 0)
      for (std::size_t i = 0; i < matches.gl_pathc; ++i)
        if (const fs::path one = without_ending(matches.gl_pathv[i]); fs::exists(one.string() + ".idx")) found.insert(one);
    ::globfree(&matches);
    matches = {};
  }
  if (found.empty())
    throw UserError(
        {path, "there is no .idx of this prefix", "Megatron data is a pair PREFIX.bin and PREFIX.idx", "`tessera data preprocess` makes them"});
  return {found.begin(), found.end()};
}

struct Sources {
  std::vector<fs::path> prefixes;
  std::vector<double> weights;  ///< empty, or one for each; they sum to 1
};

void normalize(std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const bool usable = std::ranges::all_of(weights, [](double weight) { return weight > 0.0 && std::isfinite(weight); });
  if (!usable || !(sum > 0.0)) {
    throw UserError({"", fmt::format("the weights of the blend sum to {}{}", sum, usable ? "" : ", and not all are above 0"),
                     "a blend draws from each of its files", "leave out files that are not to be drawn from"});
  }
  for (double& weight : weights) weight /= sum;
}

/// Weights stand before prefixes when every second entry is a number.
Sources sources_of(const std::vector<std::string>& paths) {
  Sources sources;
  if (paths.size() % 2 == 0 && !paths.empty() && as_number(paths.front())) {
    for (std::size_t i = 0; i < paths.size(); i += 2) {
      const auto weight = as_number(paths[i]);
      if (!weight)
        throw UserError({"", fmt::format("'{}' stands where a weight should", paths[i]), "a blend is weight, prefix, weight, prefix, …",
                         "give every prefix a weight, or none of them"});
      const std::vector<fs::path> prefixes = prefixes_of(paths[i + 1]);
      if (prefixes.size() > 1)
        throw UserError({paths[i + 1], fmt::format("the pattern matches {} prefixes", prefixes.size()), "in a blend a weight belongs to one prefix",
                         "name the prefixes one by one, each with its weight"});
      sources.prefixes.push_back(prefixes.front());
      sources.weights.push_back(*weight);
    }
    normalize(sources.weights);
    if (sources.weights.size() == 1) sources.weights.clear();
    return sources;
  }
  for (const std::string& path : paths) {
    const std::vector<fs::path> prefixes = prefixes_of(path);
    sources.prefixes.insert(sources.prefixes.end(), prefixes.begin(), prefixes.end());
  }
  if (sources.prefixes.empty())
    throw UserError(
        {"", "no Megatron files are named", "paths holds prefixes of .bin and .idx pairs", "name at least one pair in the dataset's paths"});
  return sources;
}

std::int64_t share(std::int64_t size, double weight) { return static_cast<std::int64_t>(std::ceil(static_cast<double>(size) * weight)); }

std::string describe(const formats::MegatronFile& file, const SamplingRequest& request) {
  return fmt::format("{} | {} sequences | {} tokens | documents {} to {} | length {} | samples {} | seed {}", fs::absolute(file.prefix()).string(),
                     file.num_sequences(), file.num_tokens(), request.first_document, request.end_document, request.seq_length,
                     request.num_samples.value_or(-1), request.seed);
}

}  // namespace

MegatronDataset::MegatronDataset(MegatronOptions options) : options_(std::move(options)) {
  const Sources sources = sources_of(options_.paths);
  const std::size_t count = sources.prefixes.size();
  if (count > std::numeric_limits<std::int16_t>::max())
    throw UserError({"", fmt::format("{} files in one blend", count), "a blend has at most 32767", "merge some of the files"});
  if (count == 1) {
    build_parts(sources.prefixes, {options_.num_samples});
    size_ = parts_.front()->sampling.size();
    if (options_.num_samples) size_ = std::min(size_, *options_.num_samples);
    return;
  }
  if (!sources.weights.empty() && !options_.num_samples) {
    throw UserError({"", "a blend with weights has no number of samples", "weights are shares of the samples that a run draws",
                     "set step_scheduler.max_steps, or num_train_samples (num_val_samples)"});
  }
  std::vector<std::optional<std::int64_t>> num_samples(count);
  for (std::size_t part = 0; part < sources.weights.size(); ++part)
    num_samples[part] =
        static_cast<std::int64_t>(std::ceil(static_cast<double>(share(*options_.num_samples, sources.weights[part])) * (1.0 + kSurplus)));
  build_parts(sources.prefixes, num_samples);

  std::vector<std::int64_t> sizes;
  for (const auto& part : parts_) sizes.push_back(part->sampling.size());
  std::vector<double> weights = sources.weights;
  if (!weights.empty()) {
    size_ = 0;
    for (const double weight : weights) size_ += share(*options_.num_samples, weight);
    normalize(weights);
    blend_ = blend_by_weight(weights, size_);
  } else if (options_.num_samples) {
    size_ = std::min(*options_.num_samples, std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
    weights.assign(sizes.begin(), sizes.end());
    normalize(weights);
    blend_ = blend_by_weight(weights, size_);
  } else {
    blend_ = blend_everything(sizes);
    size_ = std::ssize(blend_->dataset);
  }
}

void MegatronDataset::build_parts(const std::vector<fs::path>& prefixes, const std::vector<std::optional<std::int64_t>>& num_samples) {
  parts_.resize(prefixes.size());
  for_each_index(std::ssize(prefixes), options_.num_threads, "sampling documents", [&](std::int64_t index) {
    const auto part = static_cast<std::size_t>(index);
    formats::MegatronFile file(prefixes[part]);
    DocumentRange documents{0, file.num_sequences()};
    if (options_.split) {
      const auto range = documents_of_split(*options_.split, static_cast<int>(options_.which), file.num_sequences());
      if (!range) throw UserError({"", fmt::format("split: '{}' gives this split nothing", *options_.split), "its share is 0", "give it a share"});
      documents = *range;
    }
    const SamplingRequest request{.first_document = documents.begin,
                                  .end_document = documents.end,
                                  .seq_length = options_.seq_length,
                                  .num_samples = num_samples[part],
                                  .seed = options_.seed};
    const auto length = [&](std::int64_t document) -> std::int64_t { return file.length(document); };
    try {
      StoredSampling sampling = cached_sampling(options_.cache, describe(file, request), [&] { return sample_documents(request, length); });
      parts_[part] = std::make_unique<const Part>(std::move(file), std::move(sampling));
    } catch (const UserError& error) {
      Problem problem = error.problems().front();
      if (problem.where.empty()) problem.where = prefixes[part].string();
      throw UserError(std::move(problem));
    }
  });
}

std::int64_t MegatronDataset::size() const { return size_; }

Sample MegatronDataset::part_sample(const Part& part, std::int64_t index) const {
  const StoredSampling& sampling = part.sampling;
  const auto at = static_cast<std::size_t>(2 * sampling.shuffle[static_cast<std::size_t>(index)]);
  const std::int64_t first = sampling.samples[at], last = sampling.samples[at + 2];
  Sample sample;
  std::vector<std::int64_t>& tokens = sample.input_ids;
  tokens.reserve(static_cast<std::size_t>(options_.seq_length + 1));
  part.file.refuse_shortened();
  for (std::int64_t entry = first; entry <= last; ++entry) {
    const std::int64_t document = sampling.documents[static_cast<std::size_t>(entry)];
    const std::int64_t begin = entry == first ? sampling.samples[at + 1] : 0;
    const std::int64_t end = entry == last ? sampling.samples[at + 3] + 1 : part.file.length(document);
    part.file.append(document, begin, end, tokens);
  }
  if (options_.vocab_size > 0) check_vocabulary(tokens, options_.vocab_size, part.file.prefix().string());
  sample.labels.assign(tokens.begin() + 1, tokens.end());
  tokens.pop_back();
  return sample;
}

Sample MegatronDataset::sample(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  const Part& part = blend_ ? *parts_[static_cast<std::size_t>(blend_->dataset[at])] : *parts_.front();
  Sample sample = part_sample(part, blend_ ? blend_->sample[at] : index);
  sample.number = index;
  return sample;
}

std::string MegatronDataset::description() const {
  std::int64_t tokens = 0;
  for (const auto& part : parts_) tokens += part->file.num_tokens();
  return fmt::format("{} samples of {} from {} tokens in {} Megatron file(s)", size_, options_.seq_length, human_count(static_cast<double>(tokens)),
                     parts_.size());
}

}  // namespace tessera::data
