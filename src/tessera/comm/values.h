#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/comm/communicator.h"

/// Small values exchanged at once, waiting for the answer. Every rank of the group calls them.
namespace tessera::comm {

/// The sum over all ranks, added in rank order: the same bits everywhere.
std::vector<double> sum(Communicator& group, std::vector<double> values);
std::vector<std::int64_t> sum(Communicator& group, std::vector<std::int64_t> values);
/// The counts of an operation to which every rank gives, or from which it gets, the same number of elements.
std::vector<std::int64_t> equal_counts(const Communicator& group, std::int64_t elements);
/// Every rank's text, in rank order.
std::vector<std::string> gather(Communicator& group, const std::string& text);
/// Runs `work` here and waits until every rank has run its own. Where one's threw, that rank rethrows it and all others throw Failure that says which
/// rank failed and with what: no rank continues alone.
void together(Communicator& group, const std::function<void()>& work);

}  // namespace tessera::comm
