#include "distributed/delaying_communicator.h"

#include <algorithm>
#include <thread>

#include "tessera/comm/forwarding_communicator.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

class DelayedOperation : public PendingOperation {
 public:
  DelayedOperation(Work inner, Clock::time_point end) : inner_(std::move(inner)), end_(end) {}
  void wait() override {
    inner_.wait();
    std::this_thread::sleep_until(end_);
  }
  bool done() const override { return inner_.done() && Clock::now() >= end_; }
  CompletionTime completed() const override { return std::max(inner_.completed(), CompletionTime(end_)); }

 private:
  Work inner_;
  Clock::time_point end_;
};

class DelayingCommunicator : public ForwardingCommunicator {
 public:
  DelayingCommunicator(std::unique_ptr<Communicator> inner, std::chrono::microseconds delay)
      : ForwardingCommunicator(std::move(inner)), delay_(delay) {}

 private:
  Work around(const OperationDescription&, const std::function<Work()>& start) override {
    const Clock::time_point end = Clock::now() + delay_;
    return Work(std::make_shared<DelayedOperation>(start(), end));
  }

  std::chrono::microseconds delay_;
};

}  // namespace

std::unique_ptr<Communicator> delaying_communicator(std::unique_ptr<Communicator> inner, std::chrono::microseconds delay) {
  return std::make_unique<DelayingCommunicator>(std::move(inner), delay);
}

}  // namespace tessera::comm
