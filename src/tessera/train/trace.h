#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/comm/recording_communicator.h"
#include "tessera/core/json.h"
#include "tessera/model/seams.h"

namespace tessera::train {

/// When one rank computed, communicated and waited, for chrome://tracing and Perfetto. Everything is kept in memory until it is written: some hundred
/// bytes for each unit's pass and each operation.
class Trace final : public comm::EventSink {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A stretch of the computing thread. `category`: "forward", "backward", "optimizer".
  void compute(std::string name, std::string category, Time begin, Time end);
  /// An operation from issue to completion, and, on the computing thread, the wait for it.
  void record(const comm::CommunicationEvent& event) override;

  /// Writes the events of all ranks as one JSON array in the trace event format; every rank of `world` calls it, rank 0 writes. Times are
  /// microseconds since the first event. Hosts are laid side by side by their clocks, so several hosts are as far apart as their clocks are.
  ///   pid  the rank
  ///   tid  0: computing, complete events ("X"); 1: communication, pairs of events ("b", "e") since several operations are under way at once,
  ///        with group and bytes sent as arguments
  void write(const std::filesystem::path& path, comm::Communicator& world) const;

 private:
  /// Plain data of both kinds of event.
  struct Event {
    std::string name, category;
    Time begin, end;
    bool communication = false;
    Json arguments = Json::object();
  };
  std::string lines(std::int64_t rank, std::int64_t origin) const;

  std::mutex mutex_;  ///< a checkpoint saved in the background communicates from its own thread
  std::vector<Event> events_;
};

/// Hooks that do what `inner` does and record in `trace` the time between: each unit's forward and backward pass. Both must outlive them.
std::unique_ptr<model::UnitHooks> tracing_hooks(model::UnitHooks& inner, Trace& trace, std::int64_t num_units);

/// Refuses a file that cannot be written, before a run and not after it: writes an empty trace. UserError.
void prepare_trace(const std::filesystem::path& path);

}  // namespace tessera::train
