#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tessera::data {

/// Calls `action(index)` for every index in [0, count), from `num_threads` threads, in blocks that ascend. Shows a progress bar once it has taken two
/// seconds. What actions throw as UserError is collected: those of the ten lowest indices are thrown together at the end, followed by a line with the
/// number of the others. Anything else that is thrown ends the work and is thrown on.
void for_each_index(std::int64_t count, int num_threads, const std::string& label, const std::function<void(std::int64_t)>& action);

}  // namespace tessera::data
