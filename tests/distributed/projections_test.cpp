// Products and messages of a layer that is split over tp go beside each other.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "distributed/ranks.h"
#include "tessera/comm/forwarding_communicator.h"
#include "tessera/parallel/tensor/projections.h"

namespace tessera::parallel {
namespace {

/// What `look` saw when each operation was waited for, and how many had been issued by then.
struct Waits {
  std::function<bool()> look;
  std::vector<bool> seen;
  std::vector<int> issued;
  int num_issued = 0;
};

class WatchedOperation : public comm::PendingOperation {
 public:
  WatchedOperation(comm::Work inner, Waits& waits) : inner_(std::move(inner)), waits_(waits) {}
  void wait() override {
    waits_.seen.push_back(waits_.look());
    waits_.issued.push_back(waits_.num_issued);
    inner_.wait();
  }
  bool done() const override { return inner_.done(); }
  comm::CompletionTime completed() const override { return inner_.completed(); }

 private:
  comm::Work inner_;
  Waits& waits_;
};

class WatchedCommunicator : public comm::ForwardingCommunicator {
 public:
  WatchedCommunicator(std::unique_ptr<comm::Communicator> inner, Waits& waits) : ForwardingCommunicator(std::move(inner)), waits_(waits) {}

 private:
  comm::Work around(const comm::OperationDescription&, const std::function<comm::Work()>& start) override {
    ++waits_.num_issued;
    return comm::Work(std::make_shared<WatchedOperation>(start(), waits_));
  }

  Waits& waits_;
};

/// The weight's gradient is computed after the sum of the input's is issued and before it is waited for. Under sequence parallelism the input is
/// gathered first, beside the product that makes the input's gradient.
RANKS_TEST(TensorProjections, MessagesOfBackwardTravelBesideTheWeightsProduct, 2) {
  for (const bool sequence_parallel : {false, true}) {
    Waits waits{.look = [] { return false; }, .seen = {}, .issued = {}};
    WatchedCommunicator group(test::world_communicator(), waits);
    const auto projections = tensor_parallel_projections(group, {.sequence_parallel = sequence_parallel});
    ops::Parameter weight{.name = "layers.0.gate_up.weight", .weight = at::full({6, 5}, 0.5), .gradient = at::full({6, 5}, 0.0), .trainable = true};
    ops::Tape tape;
    const ops::Variable input = tape.variable(at::full({sequence_parallel ? 2 : 4, 5}, 1.0));
    const ops::Variable output = projections->column_linear(tape, input, 4, weight, nullptr);
    output.gradient->add_owned(at::full({4, 6}, 1.0));
    waits = {.look = [&] { return weight.gradient_written; }, .seen = {}, .issued = {}};
    tape.backward();
    if (sequence_parallel) {
      EXPECT_THAT(waits.seen, testing::ElementsAre(false, true));
      EXPECT_THAT(waits.issued, testing::ElementsAre(2, 2));
    } else {
      EXPECT_THAT(waits.seen, testing::ElementsAre(true));
    }
  }
}

}  // namespace
}  // namespace tessera::parallel
