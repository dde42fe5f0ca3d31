#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

/// How a training run routes tokens to experts beyond what the model itself says, and what it counts meanwhile.
namespace tessera::model {

/// Over which tokens the loads of a balance loss are counted.
enum class BalanceScope {
  Sequence,   ///< of each row: the loss does not depend on how a batch is split
  Microbatch  ///< of a microbatch on all ranks together: it does
};

struct RoutingOptions {
  double balance_loss = 0.0;  ///< coefficient of E · Σ_e (share of choices that went to e) · (mean score of e); 0: none
  BalanceScope balance_scope = BalanceScope::Sequence;
  double z_loss = 0.0;  ///< coefficient of the mean of logsumexp(logits)²; 0: none
  /// An expert takes at most ceil(capacity_factor · tokens · k / E) tokens of a rank's microbatch, those with the largest weights; it drops the
  /// others, which keep their other experts. Absent: nothing is dropped.
  std::optional<double> capacity_factor;
  bool fake_balanced = false;  ///< experts round-robin, whatever the router says: for benchmarks
  bool save_routing = false;   ///< blocks that run again take the experts of their first run instead of choosing again
};

/// What one layer of experts did with the real tokens (padding is left out) of this rank since the record was cleared.
struct LayerRouting {
  std::vector<std::int64_t> loads;  ///< choices of each expert, before any are dropped
  std::int64_t num_dropped = 0;
  double balance_loss = 0.0;  ///< without coefficient, summed over tokens: each token adds the loss of its row or microbatch
  double z_loss = 0.0;        ///< likewise
};

/// What the decoder reads and writes while it trains; set with Decoder::set_routing_record.
struct RoutingRecord {
  double gradient_scale = 0.0;       ///< of auxiliary losses: 1 / tokens of the whole step, over all ranks
  std::vector<LayerRouting> layers;  ///< of every layer of the model; without loads where it has no experts

  void clear();
};

/// Sums a tensor over the ranks of some group, in place.
using SumOverRanks = std::function<void(const at::Tensor& tensor)>;

}  // namespace tessera::model
