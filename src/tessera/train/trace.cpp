#include "tessera/train/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "tessera/comm/values.h"
#include "tessera/core/error.h"
#include "tessera/core/file.h"

namespace tessera::train {
namespace {

using Time = Trace::Time;

constexpr int kComputing = 0, kCommunication = 1;

/// Between the steady clock, which starts at no particular time on each host, and the clock that hosts agree on.
std::chrono::nanoseconds clock_offset() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch() -
                                                              std::chrono::steady_clock::now().time_since_epoch());
}

std::int64_t nanoseconds(Time time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count(); }

/// The format's microseconds.
double microseconds(Time time, std::int64_t origin) { return static_cast<double>(nanoseconds(time) - origin) / 1000.0; }

std::string name_of(std::int64_t unit, std::int64_t num_units) {
  if (unit == 0) return "embedding";
  return unit + 1 == num_units ? "head" : fmt::format("layer {}", unit - 1);
}

OrderedJson label(const char* what, std::int64_t rank, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}};
}

class TracingHooks final : public model::UnitHooks {
 public:
  TracingHooks(model::UnitHooks& inner, Trace& trace, std::int64_t num_units) : inner_(inner), trace_(trace), num_units_(num_units) {}

  void before_forward(std::int64_t unit, bool recorded) override {
    inner_.before_forward(unit, recorded);
    began_ = Clock::now();
  }
  void after_forward(std::int64_t unit, bool recorded) override {
    record("forward", unit);
    inner_.after_forward(unit, recorded);
  }
  void before_backward(std::int64_t unit) override {
    inner_.before_backward(unit);
    began_ = Clock::now();
  }
  void after_backward(std::int64_t unit) override {
    record("backward", unit);
    inner_.after_backward(unit);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void record(const char* pass, std::int64_t unit) {
    trace_.compute(fmt::format("{} {}", pass, name_of(unit, num_units_)), pass, began_, Clock::now());
  }

  model::UnitHooks& inner_;
  Trace& trace_;
  std::int64_t num_units_;
  Time began_;  ///< of the unit that computes now: units do not overlap
};

}  // namespace

void Trace::compute(std::string name, std::string category, Time begin, Time end) {
  const std::lock_guard lock(mutex_);
  events_.push_back({.name = std::move(name), .category = std::move(category), .begin = begin, .end = end});
}

void Trace::record(const comm::CommunicationEvent& event) {
  const std::string kind(comm::to_string(event.description.kind));
  {
    const std::lock_guard lock(mutex_);
    events_.push_back({.name = to_string(event.description),
                       .category = kind,
                       .begin = event.issued,
                       .end = event.completed,
                       .communication = true,
                       .arguments = {{"group", event.group}, {"bytes", event.description.bytes_sent}}});
  }
  // What had arrived by itself was not waited for.
  if (event.completed > event.wait_began) compute("wait for " + kind, "wait", event.wait_began, event.wait_ended);
}

std::string Trace::lines(std::int64_t rank, std::int64_t origin) const {
  std::string text;
  const auto add = [&](const OrderedJson& event) { text += (text.empty() ? "" : ",\n") + event.dump(); };
  add(label("process_name", rank, kComputing, fmt::format("rank {}", rank)));
  add(label("thread_name", rank, kComputing, "compute"));
  add(label("thread_name", rank, kCommunication, "communication"));
  std::int64_t id = 0;
  for (const Event& event : events_) {
    const double begin = microseconds(event.begin, origin), end = microseconds(event.end, origin);
    OrderedJson json{{"name", event.name}, {"cat", event.category}, {"pid", rank}, {"tid", event.communication ? kCommunication : kComputing}};
    if (event.communication) {
      json.update({{"ph", "b"}, {"id", fmt::format("{}.{}", rank, ++id)}, {"ts", begin}, {"args", OrderedJson(event.arguments)}});
      add(json);
      json.update({{"ph", "e"}, {"ts", end}});
    } else {
      json.update({{"ph", "X"}, {"ts", begin}, {"dur", end - begin}});
    }
    add(json);
  }
  return text;
}

void Trace::write(const std::filesystem::path& path, comm::Communicator& world) const {
  const std::int64_t offset = clock_offset().count();
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Event& event : events_) first = std::min(first, nanoseconds(event.begin) + offset);
  for (const std::string& other : comm::gather(world, std::to_string(first))) first = std::min<std::int64_t>(first, std::stoll(other));
  const std::vector<std::string> ranks = comm::gather(world, lines(world.rank(), first - offset));
  if (world.rank() == 0) replace_file(*posix_file_operations(), path, fmt::format("[\n{}\n]\n", fmt::join(ranks, ",\n")));
}

std::unique_ptr<model::UnitHooks> tracing_hooks(model::UnitHooks& inner, Trace& trace, std::int64_t num_units) {
  return std::make_unique<TracingHooks>(inner, trace, num_units);
}

void prepare_trace(const std::filesystem::path& path) try { replace_file(*posix_file_operations(), path, "[]\n"); } catch (const Failure& failure) {
  const Problem& why = failure.problem();
  throw UserError({path.string(), why.what, "the trace is written at the end", why.fix.empty() ? "name another file" : why.fix});
}

}  // namespace tessera::train
