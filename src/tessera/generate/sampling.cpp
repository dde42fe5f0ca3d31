#include "tessera/generate/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/random.h"

namespace tessera::generate {
namespace {

void penalise_repetition(std::span<float> logits, std::span<const data::TokenId> previous, double penalty) {
  const std::set<data::TokenId> seen(previous.begin(), previous.end());
  for (const data::TokenId id : seen) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = static_cast<float>(logit > 0.0F ? logit / penalty : logit * penalty);
  }
}

data::TokenId largest(std::span<const float> logits) {
  return static_cast<data::TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Ids by descending logit (ascending id among equals), the first `count` of them in order.
std::vector<data::TokenId> ranked(std::span<const float> logits, std::size_t count) {
  std::vector<data::TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](data::TokenId a, data::TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(), before);
  ids.resize(count);
  return ids;
}

/// How many of the ranked candidates the nucleus keeps.
std::size_t nucleus(const std::vector<double>& weights, double top_p) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum >= top_p * total) return i + 1;
  }
  return weights.size();
}

}  // namespace

void check(const SamplingOptions& options) {
  ProblemList problems;
  const auto require = [&](bool valid, const std::string& what, const std::string& rule, const std::string& fix) {
    if (!valid) problems.add({"", what, rule, fix});
  };
  require(options.temperature >= 0.0, fmt::format("temperature {} is negative", options.temperature), "0 is greedy, larger is more random",
          "set --temperature to 0 or more");
  require(options.top_k >= 0, fmt::format("top-k {} is negative", options.top_k), "0 keeps all tokens", "set --top-k to 0 or more");
  require(options.top_p > 0.0 && options.top_p <= 1.0, fmt::format("top-p {} is out of range", options.top_p), "it is a share of the probability",
          "set --top-p above 0, to 1 at most");
  require(options.repetition_penalty > 0.0, fmt::format("repetition penalty {} is not positive", options.repetition_penalty), "1 means none",
          "set --repetition-penalty above 0");
  problems.throw_if_any();
}

data::TokenId choose_token(std::span<float> logits, std::span<const data::TokenId> previous, const SamplingOptions& options) {
  if (options.repetition_penalty != 1.0) penalise_repetition(logits, previous, options.repetition_penalty);
  if (options.temperature == 0.0) return largest(logits);
  const std::size_t keep = options.top_k > 0 ? std::min(static_cast<std::size_t>(options.top_k), logits.size()) : logits.size();
  const std::vector<data::TokenId> ids = ranked(logits, keep);
  std::vector<double> weights;
  for (const data::TokenId id : ids)
    weights.push_back(std::exp((logits[static_cast<std::size_t>(id)] - logits[static_cast<std::size_t>(ids[0])]) / options.temperature));
  weights.resize(nucleus(weights, options.top_p));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double remaining = CounterRandom(options.seed, "sampling", std::uint64_t{0}).uniform(previous.size()) * total;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    remaining -= weights[i];
    if (remaining < 0.0) return ids[i];
  }
  return ids[weights.size() - 1];
}

}  // namespace tessera::generate
