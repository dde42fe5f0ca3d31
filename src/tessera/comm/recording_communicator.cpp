#include "tessera/comm/recording_communicator.h"

#include "tessera/comm/forwarding_communicator.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

class RecordedOperation : public PendingOperation {
 public:
  RecordedOperation(Work inner, CommunicationEvent event, EventSink& sink) : inner_(std::move(inner)), event_(std::move(event)), sink_(sink) {}
  void wait() override {
    event_.wait_began = Clock::now();
    inner_.wait();
    event_.wait_ended = Clock::now();
    event_.completed = inner_.completed().value_or(event_.issued);
    sink_.record(event_);
  }
  bool done() const override { return inner_.done(); }
  CompletionTime completed() const override { return inner_.completed(); }

 private:
  Work inner_;
  CommunicationEvent event_;
  EventSink& sink_;
};

class RecordingCommunicator : public ForwardingCommunicator {
 public:
  RecordingCommunicator(std::unique_ptr<Communicator> inner, EventSink& sink) : ForwardingCommunicator(std::move(inner)), sink_(sink) {}

 private:
  Work around(const OperationDescription& description, const std::function<Work()>& start) override {
    CommunicationEvent event{description, name(), Clock::now(), {}, {}, {}};
    Work work = start();
    return Work(std::make_shared<RecordedOperation>(std::move(work), std::move(event), sink_));
  }

  EventSink& sink_;
};

}  // namespace

std::unique_ptr<Communicator> recording_communicator(std::unique_ptr<Communicator> inner, EventSink& sink) {
  return std::make_unique<RecordingCommunicator>(std::move(inner), sink);
}

}  // namespace tessera::comm
