#pragma once

#include <memory>

#include "tessera/comm/communicator.h"

namespace tessera::comm {

/// For tests and debugging: before each collective the ranks tell each other what they issue (an all-gather of a few bytes, over `inner` too), and
/// `wait` throws Failure that lists what every rank issued when it is not the same, instead of hanging. Messages between two ranks pass through.
/// Operations still start at once and do not wait for each other.
std::unique_ptr<Communicator> checked_communicator(std::unique_ptr<Communicator> inner);

}  // namespace tessera::comm
