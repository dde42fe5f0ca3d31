#pragma once

#include <chrono>
#include <memory>

#include "tessera/comm/communicator.h"

namespace tessera::comm {

/// A slow network for tests: no operation completes earlier than `delay` after it was issued. Delays of several operations run side by side.
std::unique_ptr<Communicator> delaying_communicator(std::unique_ptr<Communicator> inner, std::chrono::microseconds delay);

}  // namespace tessera::comm
