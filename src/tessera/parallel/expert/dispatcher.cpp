#include "tessera/parallel/expert/dispatcher.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "tessera/comm/values.h"
#include "tessera/core/error.h"
#include "tessera/parallel/expert/routes.h"
#include "tessera/parallel/tensor/residual_stream.h"

namespace tessera::parallel {
namespace {

using Counts = std::vector<std::int64_t>;

/// Rows that go from every rank of a group to every other, and may come back.
class RowExchange {
 public:
  RowExchange(comm::Communicator& group, Counts sent, Counts received) : group_(&group), sent_(std::move(sent)), received_(std::move(received)) {}

  const Counts& received() const { return received_; }
  /// [Σ sent, W] to [Σ received, W], and the other way.
  Arriving there(const at::Tensor& rows) const { return start(rows, sent_, received_); }
  Arriving back(const at::Tensor& rows) const { return start(rows, received_, sent_); }
  RowExchange reversed() const { return {*group_, received_, sent_}; }

 private:
  Arriving start(const at::Tensor& rows, const Counts& given, const Counts& taken) const {
    const std::int64_t width = rows.size(1);
    const auto elements = [width](const Counts& counts) {
      Counts result;
      for (const std::int64_t count : counts) result.push_back(count * width);
      return result;
    };
    std::int64_t total = 0;
    for (const std::int64_t count : taken) total += count;
    at::Tensor coming = at::empty({total, width}, rows.options());
    comm::Work work = group_->all_to_all(rows.contiguous(), elements(given), coming, elements(taken));
    return {std::move(coming), std::move(work)};
  }

  comm::Communicator* group_;
  Counts sent_, received_;
};

/// What has arrived at an operator's output, zeros when nothing has: ranks must not differ in what they send.
at::Tensor gradient_of(ops::GradientSlot& slot, at::IntArrayRef sizes, const at::TensorOptions& options) {
  return slot.empty() ? at::zeros(sizes, options) : slot.take();
}

/// An exchange as an operator in two halves, so that others can come in between. Forward: it starts, and is waited for. Backward: it starts in the
/// second half's closure, and is waited for in the first one's.
class RowsUnderWay {
 public:
  RowsUnderWay(ops::Tape& tape, const RowExchange& exchange, const ops::Variable& rows) : exchange_(exchange), coming_(exchange.there(rows.value)) {
    tape.record([coming_back = coming_back_, slot = rows.gradient] { slot->add_owned(coming_back->wait()); });
  }

  ops::Variable wait(ops::Tape& tape) {
    ops::Variable rows = tape.variable(coming_.wait());
    tape.record([exchange = exchange_, coming_back = coming_back_, sizes = rows.value.sizes().vec(), options = rows.value.options(),
                 out = rows.gradient] { *coming_back = exchange.back(gradient_of(*out, sizes, options)); });
    return rows;
  }

 private:
  RowExchange exchange_;
  Arriving coming_;
  std::shared_ptr<Arriving> coming_back_ = std::make_shared<Arriving>();
};

/// Integers as wide as a weight, so that both travel in one message.
at::ScalarType integer_type(const at::Tensor& weights) { return weights.scalar_type() == at::kDouble ? at::kLong : at::kInt; }

/// Choices and their weights, likewise: a message has a row for each, the place of the choice and the bits of its weight. Only the weights have
/// gradients.
class ChoicesUnderWay {
 public:
  struct Arrived {
    std::vector<SentChoice> choices;
    ops::Variable weights;
  };

  ChoicesUnderWay(ops::Tape& tape, const RowExchange& exchange, const Departure& departure, const ops::Variable& weights_NK,
                  std::int64_t experts_per_rank)
      : exchange_(exchange), experts_per_rank_(experts_per_rank), weight_type_(weights_NK.value.scalar_type()) {
    const at::Tensor number_Q = at::tensor(departure.number_Q, at::kLong).to(weights_NK.value.device());
    coming_ = exchange.there(message(departure.choice_Q, at::index_select(weights_NK.value.reshape({-1}), 0, number_Q)));
    tape.record([coming_back = coming_back_, number_Q, sizes = weights_NK.value.sizes().vec(), options = weights_NK.value.options(),
                 slot = weights_NK.gradient] {
      const at::Tensor gradient_NK = at::zeros(sizes, options);
      gradient_NK.view({-1}).index_copy_(0, number_Q, coming_back->wait().squeeze(1));
      if (slot != nullptr) slot->add_owned(gradient_NK);
    });
  }

  Arrived wait(ops::Tape& tape) {
    const at::Tensor message = coming_.wait();
    Arrived arrived{.choices = {}, .weights = tape.variable(message.select(1, 1).contiguous().view(weight_type_))};
    const at::Tensor places = message.select(1, 0).to(at::kLong).cpu().contiguous();
    const std::int64_t* const place = places.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < places.size(0); ++i) arrived.choices.push_back({place[i] / experts_per_rank_, place[i] % experts_per_rank_});
    tape.record([exchange = exchange_, coming_back = coming_back_, size = message.size(0), options = arrived.weights.value.options(),
                 out = arrived.weights.gradient] { *coming_back = exchange.back(gradient_of(*out, {size}, options).unsqueeze(1)); });
    return arrived;
  }

 private:
  at::Tensor message(const std::vector<SentChoice>& choices, const at::Tensor& weights_Q) const {
    std::vector<std::int64_t> places;
    for (const SentChoice& choice : choices) places.push_back(choice.row * experts_per_rank_ + choice.expert);
    const at::ScalarType type = integer_type(weights_Q);
    return at::stack({at::tensor(places, at::kLong).to(weights_Q.device(), type), weights_Q.view(type)}, 1);
  }

  RowExchange exchange_;
  std::int64_t experts_per_rank_;
  at::ScalarType weight_type_;
  Arriving coming_;
  std::shared_ptr<Arriving> coming_back_ = std::make_shared<Arriving>();
};

class ExpertParallelDispatcher : public model::Dispatcher {
 public:
  explicit ExpertParallelDispatcher(comm::Communicator& group) : group_(group) {}

  ops::Variable operator()(ops::Tape& tape, const ops::Variable& tokens_ND, const model::Routing& routing, std::int64_t num_experts,
                           const model::Experts& experts, const std::function<void()>& meanwhile) override {
    TESSERA_ASSERT(num_experts % group_.size() == 0, "every rank holds as many experts");
    const std::int64_t here = num_experts / group_.size();
    const Departure departure = plan_departure(routing.experts_NK, group_.size(), here);
    const Exchanges exchanges = exchange_counts(departure);
    ChoicesUnderWay choices_under_way(tape, exchanges.choices, departure, routing.weights_NK, here);
    RowsUnderWay tokens_under_way(tape, exchanges.rows, ops::rows_to_places(tape, tokens_ND, departure.rows));
    if (meanwhile) meanwhile();
    const ChoicesUnderWay::Arrived arrived = choices_under_way.wait(tape);
    const ops::Variable tokens = tokens_under_way.wait(tape);
    const ops::RoutedRows arrival = plan_arrival(arrived.choices, exchanges.choices.received(), exchanges.rows.received(), here);
    const ops::Variable outputs = experts(tape, ops::rows_to_places(tape, tokens, arrival), arrival.rows_per_group);
    const ops::Variable sums = ops::rows_from_places(tape, outputs, &arrived.weights, arrival);
    const ops::Variable returned = RowsUnderWay(tape, exchanges.rows.reversed(), sums).wait(tape);
    return ops::rows_from_places(tape, returned, nullptr, departure.rows);
  }

 private:
  struct Exchanges {
    RowExchange rows, choices;
  };

  /// Tells every rank how many tokens and choices come to it.
  Exchanges exchange_counts(const Departure& departure) const {
    const auto size = static_cast<std::size_t>(group_.size());
    Counts told;
    for (std::size_t rank = 0; rank < size; ++rank) {
      told.push_back(departure.rows.rows_per_group[rank]);
      told.push_back(departure.choices_per_rank[rank]);
    }
    const at::Tensor sent = at::tensor(told, at::kLong), received = at::empty_like(sent);
    const Counts two_each = comm::equal_counts(group_, 2);
    group_.all_to_all(sent, two_each, received, two_each).wait();
    Counts rows, choices;
    for (std::size_t rank = 0; rank < size; ++rank) {
      rows.push_back(received.data_ptr<std::int64_t>()[2 * rank]);
      choices.push_back(received.data_ptr<std::int64_t>()[2 * rank + 1]);
    }
    return {{group_, departure.rows.rows_per_group, std::move(rows)}, {group_, departure.choices_per_rank, std::move(choices)}};
  }

  comm::Communicator& group_;
};

}  // namespace

std::unique_ptr<model::Dispatcher> expert_parallel_dispatcher(comm::Communicator& group) { return std::make_unique<ExpertParallelDispatcher>(group); }

}  // namespace tessera::parallel
