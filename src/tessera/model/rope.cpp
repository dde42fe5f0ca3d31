#include "tessera/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/core/error.h"

namespace tessera::model {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

/// theta^(−2i / rotary_dim)
std::vector<double> plain_frequencies(double theta, std::int64_t rotary_dim) {
  std::vector<double> frequencies(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
  }
  return frequencies;
}

RopeFrequencies linear_frequencies(const RopeSpec& spec) {
  RopeFrequencies result{plain_frequencies(spec.theta, spec.rotary_dim), 1.0};
  for (double& frequency : result.inverse_frequencies) frequency /= spec.factor;
  return result;
}

/// The base grows with the document so that the lowest frequency stretches by factor · length / context − (factor − 1).
RopeFrequencies dynamic_frequencies(const RopeSpec& spec, std::int64_t document_length) {
  const auto context = static_cast<double>(spec.max_position_embeddings);
  const double length = std::max(static_cast<double>(document_length), context);
  const double stretch = spec.factor * length / context - (spec.factor - 1.0);
  const auto dim = static_cast<double>(spec.rotary_dim);
  return {plain_frequencies(spec.theta * std::pow(stretch, dim / (dim - 2.0)), spec.rotary_dim), 1.0};
}

double yarn_scale(double factor, double mscale) { return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

double yarn_attention_factor(const RopeSpec& spec) {
  if (spec.attention_factor) return *spec.attention_factor;
  if (spec.mscale.value_or(0.0) != 0.0 && spec.mscale_all_dim.value_or(0.0) != 0.0) {
    return yarn_scale(spec.factor, *spec.mscale) / yarn_scale(spec.factor, *spec.mscale_all_dim);
  }
  return yarn_scale(spec.factor, 1.0);
}

/// The (fractional) pair that makes `rotations` full turns over the original context.
double yarn_pair_of_rotations(const RopeSpec& spec, double rotations) {
  const double context = static_cast<double>(spec.original_max_position_embeddings);
  return static_cast<double>(spec.rotary_dim) * std::log(context / (rotations * kTwoPi)) / (2.0 * std::log(spec.theta));
}

/// Pairs that turn often keep their frequency, pairs that turn seldom are interpolated, with a linear ramp between.
RopeFrequencies yarn_frequencies(const RopeSpec& spec) {
  double low = yarn_pair_of_rotations(spec, spec.beta_fast);
  double high = yarn_pair_of_rotations(spec, spec.beta_slow);
  if (spec.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(spec.rotary_dim - 1));
  if (low == high) high += 0.001;
  RopeFrequencies result{plain_frequencies(spec.theta, spec.rotary_dim), yarn_attention_factor(spec)};
  for (std::size_t i = 0; i < result.inverse_frequencies.size(); ++i) {
    const double interpolated = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    result.inverse_frequencies[i] *= interpolated / spec.factor + (1.0 - interpolated);
  }
  return result;
}

double longrope_attention_factor(const RopeSpec& spec) {
  if (spec.attention_factor) return *spec.attention_factor;
  if (spec.factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(spec.factor) / std::log(static_cast<double>(spec.original_max_position_embeddings)));
}

RopeFrequencies longrope_frequencies(const RopeSpec& spec, std::int64_t document_length) {
  const auto& divisors = document_length > spec.original_max_position_embeddings ? spec.long_factor : spec.short_factor;
  RopeFrequencies result{plain_frequencies(spec.theta, spec.rotary_dim), longrope_attention_factor(spec)};
  TESSERA_ASSERT(divisors.size() == result.inverse_frequencies.size(), "one longrope factor per rotated pair");
  for (std::size_t i = 0; i < divisors.size(); ++i) result.inverse_frequencies[i] /= divisors[i];
  return result;
}

/// Long wavelengths are stretched by factor, short ones kept, the band between blended smoothly.
RopeFrequencies llama3_frequencies(const RopeSpec& spec) {
  RopeFrequencies result{plain_frequencies(spec.theta, spec.rotary_dim), 1.0};
  const auto context = static_cast<double>(spec.original_max_position_embeddings);
  for (double& frequency : result.inverse_frequencies) {
    const double rotations = context * frequency / kTwoPi;
    const double kept = std::clamp((rotations - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor), 0.0, 1.0);
    frequency *= (1.0 - kept) / spec.factor + kept;
  }
  return result;
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeSpec& spec, std::int64_t document_length) {
  switch (spec.kind) {
    case RopeKind::Default:
      return {plain_frequencies(spec.theta, spec.rotary_dim), 1.0};
    case RopeKind::Linear:
      return linear_frequencies(spec);
    case RopeKind::Dynamic:
      return dynamic_frequencies(spec, document_length);
    case RopeKind::Yarn:
      return yarn_frequencies(spec);
    case RopeKind::Longrope:
      return longrope_frequencies(spec, document_length);
    case RopeKind::Llama3:
      return llama3_frequencies(spec);
  }
  TESSERA_ASSERT(false, "every rope kind has frequencies");
}

bool depends_on_length(const RopeSpec& spec) { return spec.kind == RopeKind::Dynamic || spec.kind == RopeKind::Longrope; }

}  // namespace tessera::model
