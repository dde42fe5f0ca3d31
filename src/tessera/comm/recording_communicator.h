#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tessera/comm/communicator.h"
#include "tessera/comm/operation.h"

namespace tessera::comm {

/// One operation as the issuing rank saw it.
struct CommunicationEvent {
  OperationDescription description;  ///< to_string() of it is the event's name, bytes_sent its size
  std::string group;
  std::chrono::steady_clock::time_point issued;
  std::chrono::steady_clock::time_point completed;  ///< whenever that was noticed: may be before the wait began
  std::chrono::steady_clock::time_point wait_began;
  std::chrono::steady_clock::time_point wait_ended;  ///< between the last two the rank did nothing else
};

/// Where events go, e.g. into a Chrome trace. Called by the thread that waits; the sink outlives the communicators and the works that report to it.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void record(const CommunicationEvent& event) = 0;
};

/// Tells `sink` of each operation when it has been waited for.
std::unique_ptr<Communicator> recording_communicator(std::unique_ptr<Communicator> inner, EventSink& sink);

}  // namespace tessera::comm
