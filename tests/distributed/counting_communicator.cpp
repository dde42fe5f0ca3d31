#include "distributed/counting_communicator.h"

#include "tessera/comm/forwarding_communicator.h"

namespace tessera::comm {
namespace {

class CountingCommunicator : public ForwardingCommunicator {
 public:
  CountingCommunicator(std::unique_ptr<Communicator> inner, Traffic& traffic) : ForwardingCommunicator(std::move(inner)), traffic_(traffic) {}

 private:
  Work around(const OperationDescription& description, const std::function<Work()>& start) override {
    const auto kind = static_cast<std::size_t>(description.kind);
    ++traffic_.operations[kind];
    traffic_.bytes_sent[kind] += description.bytes_sent;
    return start();
  }

  Traffic& traffic_;
};

}  // namespace

std::unique_ptr<Communicator> counting_communicator(std::unique_ptr<Communicator> inner, Traffic& traffic) {
  return std::make_unique<CountingCommunicator>(std::move(inner), traffic);
}

}  // namespace tessera::comm
