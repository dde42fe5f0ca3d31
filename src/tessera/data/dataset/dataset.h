#pragma once

#include <cstdint>
#include <string>

#include "tessera/data/batch.h"

namespace tessera::data {

/// A finite list of samples, reachable in any order. Immutable after construction: `sample` may be called from many threads at once,
/// always gives the same answer for the same index, and throws UserError (file:line where possible) for data the user can fix.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  /// 0 ≤ index < size(). `Sample::number` is the index.
  virtual Sample sample(std::int64_t index) const = 0;
  /// One line for the log: what, from where, how many samples, and what was left out.
  virtual std::string description() const = 0;
};

}  // namespace tessera::data
