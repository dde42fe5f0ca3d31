#include "tessera/parallel/pipeline/stage_split.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::pipeline {
namespace {

using model::Role;

double elements(const std::vector<std::int64_t>& shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

bool is_lookup(Role role) { return role == Role::Embedding || role == Role::PositionEmbedding; }

/// Splits of units 0 … U − 1 into consecutive stages, by dynamic programming.
class Splitter {
 public:
  Splitter(const std::vector<double>& costs, int num_stages, const BlockLimits& limits)
      : num_units_(static_cast<int>(costs.size())), num_stages_(num_stages), limits_(limits), sums_(costs.size() + 1, 0.0) {
    for (std::size_t unit = 0; unit < costs.size(); ++unit) sums_[unit + 1] = sums_[unit] + costs[unit];
  }

  /// The split of the smallest total, where a stage adds its cost to that of the stages before it by `combine`; empty when there is none.
  template <class Combine>
  std::vector<UnitRange> best(Combine combine, double& total) const {
    const auto columns = static_cast<std::size_t>(num_units_) + 1;
    std::vector<std::vector<double>> least(static_cast<std::size_t>(num_stages_) + 1, std::vector<double>(columns, kNone));
    std::vector<std::vector<int>> begin(least.size(), std::vector<int>(columns, -1));
    least[0][0] = 0;
    for (std::size_t stage = 1; stage < least.size(); ++stage)
      for (int end = 1; end <= num_units_; ++end)
        for (int first = end - 1; first >= 0; --first) {
          if (least[stage - 1][static_cast<std::size_t>(first)] == kNone || !is_allowed({first, end})) continue;
          const double sum = combine(least[stage - 1][static_cast<std::size_t>(first)], cost({first, end}));
          if (sum >= least[stage][static_cast<std::size_t>(end)]) continue;
          least[stage][static_cast<std::size_t>(end)] = sum;
          begin[stage][static_cast<std::size_t>(end)] = first;
        }
    total = least.back().back();
    return total == kNone ? std::vector<UnitRange>{} : trace_back(begin);
  }

  static constexpr double kNone = std::numeric_limits<double>::infinity();

 private:
  double cost(const UnitRange& range) const { return sums_[static_cast<std::size_t>(range.end)] - sums_[static_cast<std::size_t>(range.first)]; }

  bool is_allowed(const UnitRange& range) const {
    const int blocks = std::min(range.end, num_units_ - 1) - std::max(range.first, 1);
    if (range.end == num_units_ && range.first == num_units_ - 1) return limits_.head_alone;
    return blocks >= limits_.fewest && blocks <= limits_.most;
  }

  std::vector<UnitRange> trace_back(const std::vector<std::vector<int>>& begin) const {
    std::vector<UnitRange> stages(static_cast<std::size_t>(num_stages_));
    int end = num_units_;
    for (std::size_t stage = stages.size(); stage-- > 0;) {
      stages[stage] = {begin[stage + 1][static_cast<std::size_t>(end)], end};
      end = stages[stage].first;
    }
    return stages;
  }

  int num_units_, num_stages_;
  BlockLimits limits_;
  std::vector<double> sums_;  ///< of the costs before each unit
};

}  // namespace

std::vector<double> unit_costs(const model::ParameterTable& table) {
  std::vector<double> costs(static_cast<std::size_t>(table.num_units), 0.0);
  for (const model::ParameterSpec& parameter : table.parameters) {
    double& cost = costs[static_cast<std::size_t>(parameter.unit)];
    cost += is_lookup(parameter.role) ? static_cast<double>(parameter.shape.back()) : parameter.share_of_tokens * elements(parameter.shape);
    if (table.tied_head && parameter.role == Role::Embedding) costs.back() += elements(parameter.shape);
  }
  return costs;
}

std::vector<UnitRange> split_units(const std::vector<double>& costs, int num_stages, const BlockLimits& limits) {
  TESSERA_ASSERT(costs.size() >= 2 && num_stages >= 1, "a model has an embedding and a head, a pipeline a stage");
  const Splitter splitter(costs, num_stages, limits);
  double dearest = 0, squares = 0;
  splitter.best([](double before, double stage) { return std::max(before, stage); }, dearest);
  const double most = dearest * (1 + 1e-12);  // sums of different order differ by rounding
  return splitter.best([&](double before, double stage) { return stage <= most ? before + stage * stage : Splitter::kNone; }, squares);
}

std::string describe(const UnitRange& range, int num_units) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const int first = std::max(range.first, 1) - 1, last = std::min(range.end, num_units - 1) - 2;
  if (range.first == 0) add("embedding");
  if (last == first) add(fmt::format("layer {}", first));
  if (last > first) add(fmt::format("layers {}-{}", first, last));
  if (range.end == num_units) add("head");
  return text;
}

}  // namespace tessera::pipeline
