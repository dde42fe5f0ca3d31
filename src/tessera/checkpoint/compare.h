#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/checkpoint/files.h"

namespace tessera::checkpoint {

/// How a tensor that both sides have differs in its values.
struct ValueDifference {
  std::string name;
  std::uint64_t num_elements = 0;
  std::uint64_t num_different = 0;  ///< elements that are not the same bits
  double largest = 0.0;             ///< of |a − b|; 0 for tensors of integers
  double largest_value = 0.0;       ///< of |a|: what `largest` is to be measured against
};

/// What distinguishes two checkpoints, or two models.
struct Differences {
  std::uint64_t num_tensors = 0;        ///< compared by value
  std::vector<std::string> structure;   ///< "w is only in A", "w has shape [2] in A, [3] in B": one line each
  std::vector<std::string> state;       ///< "step: 10 in A, 20 in B": step, optimizer, schedule, loader, losses, best validation
  std::vector<ValueDifference> values;  ///< of the tensors that differ, by name

  bool same() const { return structure.empty() && state.empty() && values.empty(); }
};

/// Compares two checkpoints of any layouts, tensor by tensor: weights, and where both are checkpoints of runs also masters, moments (under their
/// names in optim/: "exp_avg.NAME") and state. Either may also be a Hugging Face directory: then weights only. Streams; no more than some MiB are in
/// memory. `progress` counts the bytes of A. UserError when one cannot be read.
Differences compare(const std::filesystem::path& a, const std::filesystem::path& b, const Progress& progress = {});
/// Bytes of A that compare() reads.
std::uint64_t bytes_to_compare(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace tessera::checkpoint
