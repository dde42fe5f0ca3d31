#include "tessera/data/lengths.h"

#include "tessera/data/dataset/for_each_index.h"

namespace tessera::data {

std::vector<std::int32_t> sample_lengths(const Dataset& dataset, int num_threads) {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(dataset.size()));
  for_each_index(dataset.size(), num_threads, "measuring samples", [&](std::int64_t index) {
    lengths[static_cast<std::size_t>(index)] = static_cast<std::int32_t>(dataset.sample(index).input_ids.size());
  });
  return lengths;
}

}  // namespace tessera::data
