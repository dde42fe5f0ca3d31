#include "tessera/data/batch.h"

#include <algorithm>
#include <numeric>

namespace tessera::data {

std::int64_t num_label_tokens(const Batch& batch) {
  return std::count_if(batch.labels.begin(), batch.labels.end(), [](std::int64_t label) { return label != kIgnoredLabel; });
}

std::int64_t num_tokens(const Batch& batch) { return std::accumulate(batch.lengths.begin(), batch.lengths.end(), std::int64_t{0}); }

}  // namespace tessera::data
