#pragma once

#include <cstdint>
#include <vector>

#include "tessera/data/dataset/dataset.h"

namespace tessera::data {

/// The number of tokens of every sample, in the dataset's order. Makes each sample once, from `num_threads` threads, with a progress bar.
std::vector<std::int32_t> sample_lengths(const Dataset& dataset, int num_threads);

}  // namespace tessera::data
