#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"

/// Small values exchanged at once, waiting for the answer. Every rank of the group calls them.
namespace tessera::comm {

/// The sum over all ranks, added in rank order: the same bits everywhere.
std::vector<double> sum(Communicator& group, std::vector<double> values);
std::vector<std::int64_t> sum(Communicator& group, std::vector<std::int64_t> values);
/// Every rank's text, in rank order.
std::vector<std::string> gather(Communicator& group, const std::string& text);

}  // namespace tessera::comm
