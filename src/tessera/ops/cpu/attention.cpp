#include "tessera/ops/cpu/attention.h"

#include <algorithm>

namespace tessera::ops::cpu {

void document_begins(const std::int64_t* boundaries, std::int64_t num_boundaries, std::int64_t length, std::int64_t start,
                     std::int64_t* document_begin) {
  std::int64_t begin = 0;
  const auto fill = [&](std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) document_begin[t] = start + begin;
    begin = std::max(begin, end);
  };
  for (std::int64_t i = 0; i < num_boundaries; ++i) fill(std::min(boundaries[i], length));
  fill(length);
}

}  // namespace tessera::ops::cpu
