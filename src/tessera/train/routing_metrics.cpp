#include "tessera/train/routing_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace tessera::train {
namespace {

using Loads = std::vector<std::int64_t>;

double mean(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

/// Each expert's load by the mean; zeros without any.
std::vector<double> utilization(const Loads& loads) {
  const auto total = static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
  std::vector<double> ratios(loads.size());
  if (total > 0.0)
    std::ranges::transform(loads, ratios.begin(), [&](std::int64_t load) { return static_cast<double>(load * std::ssize(loads)) / total; });
  return ratios;
}

double variation(const std::vector<double>& ratios) {
  double squares = 0.0;
  const double center = mean(ratios);
  for (const double ratio : ratios) squares += (ratio - center) * (ratio - center);
  return center > 0.0 && ratios.size() > 1 ? std::sqrt(squares / static_cast<double>(ratios.size() - 1)) / center : 0.0;
}

double dead_share(const std::vector<double>& ratios) {
  return static_cast<double>(std::ranges::count(ratios, 0.0)) / static_cast<double>(ratios.size());
}

double diversity(const std::vector<double>& ratios) {
  const auto size = static_cast<double>(ratios.size());
  if (mean(ratios) == 0.0) return 0.0;
  double entropy = 0.0;
  for (const double ratio : ratios)
    if (ratio > 0.0) entropy -= ratio / size * std::log(ratio / size);
  return std::exp(entropy) / size;
}

/// One layer with experts.
struct LayerMetrics {
  std::size_t layer;
  std::vector<double> ratios;
  double cv, dead, diversity;
  double aux_loss, z_loss;  ///< 0 when the run has none
};

std::vector<LayerMetrics> metrics_of_layers(const ExpertTraining& experts) {
  std::vector<LayerMetrics> metrics;
  const double tokens = std::max(1.0, static_cast<double>(experts.num_tokens));
  for (std::size_t number = 0; number < experts.layers.size(); ++number) {
    const model::LayerRouting& layer = experts.layers[number];
    if (layer.loads.empty()) continue;
    const std::vector<double> ratios = utilization(layer.loads);
    metrics.push_back({.layer = number,
                       .ratios = ratios,
                       .cv = variation(ratios),
                       .dead = dead_share(ratios),
                       .diversity = diversity(ratios),
                       .aux_loss = layer.balance_loss / tokens,
                       .z_loss = layer.z_loss / tokens});
  }
  return metrics;
}

std::vector<double> all_of(const std::vector<LayerMetrics>& layers, double LayerMetrics::* member) {
  std::vector<double> values(layers.size());
  std::ranges::transform(layers, values.begin(), member);
  return values;
}

/// The `count` least and the `count` most used experts of all layers.
void add_extreme_experts(const std::vector<LayerMetrics>& layers, std::int64_t count, std::map<std::string, double>& metrics) {
  std::vector<std::pair<double, std::string>> all;
  for (const LayerMetrics& layer : layers)
    for (std::size_t expert = 0; expert < layer.ratios.size(); ++expert)
      all.emplace_back(layer.ratios[expert], fmt::format("moe_expert_utilization/layer_{}_expert_{}", layer.layer, expert));
  std::ranges::stable_sort(all, {}, &std::pair<double, std::string>::first);
  const std::int64_t size = std::ssize(all);
  for (std::int64_t place = 0; place < size; ++place)
    if (place < count || place >= size - count)
      metrics.emplace(all[static_cast<std::size_t>(place)].second, all[static_cast<std::size_t>(place)].first);
}

void add_utilization(const std::vector<LayerMetrics>& layers, std::map<std::string, double>& metrics) {
  std::vector<double> all;
  for (const LayerMetrics& layer : layers) all.insert(all.end(), layer.ratios.begin(), layer.ratios.end());
  std::ranges::sort(all);
  metrics["moe/expert_utilization_p25"] = all[all.size() / 4];
  metrics["moe/expert_utilization_median"] = median(all);
  metrics["moe/expert_utilization_p75"] = all[3 * all.size() / 4];
  metrics["moe/expert_utilization_min"] = all.front();
  metrics["moe/expert_utilization_max"] = all.back();
}

void add_layer(const LayerMetrics& layer, std::map<std::string, double>& metrics) {
  const auto add = [&](const char* name, double value) { metrics[fmt::format("moe/layer_{}/{}", layer.layer, name)] = value; };
  add("cv", layer.cv);
  add("utilization_mean", mean(layer.ratios));
  add("dead_expert_frac", layer.dead);
  add("expert_diversity", layer.diversity);
  if (layer.aux_loss > 0.0) add("aux_loss", layer.aux_loss);
  if (layer.z_loss > 0.0) add("z_loss", layer.z_loss);
}

}  // namespace

std::map<std::string, double> routing_metrics(const ExpertTraining& experts, std::int64_t top_k_experts, bool detailed) {
  const std::vector<LayerMetrics> layers = metrics_of_layers(experts);
  std::map<std::string, double> metrics;
  const std::vector<double> variations = all_of(layers, &LayerMetrics::cv), diversities = all_of(layers, &LayerMetrics::diversity);
  metrics["moe/cv_mean"] = mean(variations);
  metrics["moe/cv_median"] = median(variations);
  metrics["moe/cv_min"] = std::ranges::min(variations);
  metrics["moe/cv_max"] = std::ranges::max(variations);
  metrics["moe/dead_expert_frac_mean"] = mean(all_of(layers, &LayerMetrics::dead));
  metrics["moe/expert_diversity_mean"] = mean(diversities);
  metrics["moe/expert_diversity_min"] = std::ranges::min(diversities);
  const double aux_loss = mean(all_of(layers, &LayerMetrics::aux_loss)), z_loss = mean(all_of(layers, &LayerMetrics::z_loss));
  if (aux_loss > 0.0) metrics["moe/aux_loss_mean"] = aux_loss;
  if (z_loss > 0.0) metrics["moe/z_loss_mean"] = z_loss;
  add_utilization(layers, metrics);
  add_extreme_experts(layers, top_k_experts, metrics);
  if (detailed)
    for (const LayerMetrics& layer : layers) add_layer(layer, metrics);
  return metrics;
}

std::int64_t num_dropped(const ExpertTraining& experts) {
  std::int64_t sum = 0;
  for (const model::LayerRouting& layer : experts.layers) sum += layer.num_dropped;
  return sum;
}

}  // namespace tessera::train
