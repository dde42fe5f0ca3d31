// Tokens that travel to experts on other ranks give what experts at home give.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <functional>

#include "distributed/counting_communicator.h"
#include "distributed/ranks.h"
#include "tessera/comm/forwarding_communicator.h"
#include "tessera/ops/grouped_linear.h"
#include "tessera/parallel/expert/dispatcher.h"

namespace tessera::parallel {
namespace {

constexpr std::int64_t kExperts = 24, kWidth = 5, kChoices = 4;

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType type) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions().dtype(at::kDouble)).to(type);
}

/// What one rank brings, a function of its number.
struct Tokens {
  at::Tensor tokens_ND, experts_NK, weights_NK, gradient_ND;
};

using Choose = std::function<std::int64_t(std::int64_t token, std::int64_t choice)>;

Tokens tokens_of(std::int64_t rank, std::int64_t count, const Choose& choose, at::ScalarType type) {
  std::vector<std::int64_t> experts;
  for (std::int64_t token = 0; token < count; ++token)
    for (std::int64_t choice = 0; choice < kChoices; ++choice) experts.push_back(choose(token, choice));
  const auto seed = static_cast<std::uint64_t>(rank) * 10;
  return {random({count, kWidth}, seed + 1, type), at::tensor(experts, at::kLong).view({-1, kChoices}), random({count, kChoices}, seed + 2, type),
          random({count, kWidth}, seed + 3, type)};
}

ops::Parameter experts_from(std::int64_t first, std::int64_t count, at::ScalarType type) {
  ops::Parameter parameter;
  parameter.weight = random({kExperts * kWidth, kWidth}, 7, type).narrow(0, first * kWidth, count * kWidth).contiguous();
  parameter.gradient = at::full_like(parameter.weight, NAN);
  parameter.trainable = true;
  return parameter;
}

struct DispatchResults {
  at::Tensor output, tokens_gradient, weights_gradient, expert_gradient;
};

DispatchResults dispatch(model::Dispatcher& dispatcher, const Tokens& tokens, ops::Parameter experts,
                         const std::function<void(ops::Tape&)>& meanwhile = {}) {
  ops::Tape tape;
  const ops::Variable x = tape.variable(tokens.tokens_ND), weights = tape.variable(tokens.weights_NK);
  const auto compute = [&](ops::Tape& inner, const ops::Variable& rows, const std::vector<std::int64_t>& counts) {
    return ops::grouped_linear(inner, rows, experts, nullptr, counts);
  };
  const auto beside = meanwhile ? std::function<void()>([&] { meanwhile(tape); }) : std::function<void()>();
  const ops::Variable output = dispatcher(tape, x, {tokens.experts_NK, weights}, kExperts, compute, beside);
  output.gradient->add_shared(tokens.gradient_ND);
  tape.backward();
  return {output.value, x.gradient->take(), weights.gradient->take(), experts.gradient};
}

double difference(const at::Tensor& a, const at::Tensor& b) { return a.numel() == 0 ? 0.0 : (a - b).abs().max().item<double>(); }

/// Every token's experts by (token, choice), and how many tokens a rank has.
struct Case {
  std::string name;
  Choose choose;
  std::function<std::int64_t(std::int64_t rank)> num_tokens = [](std::int64_t rank) { return 3 + 5 * rank; };
};

std::vector<Case> cases() {
  const auto spread = [](std::int64_t token, std::int64_t choice) { return (token * 7 + choice * 5) % kExperts; };
  return {{"mixed", spread},
          {"one expert", [](std::int64_t, std::int64_t choice) { return choice == 0 ? 17 : -1; }},
          {"none on most ranks", [](std::int64_t token, std::int64_t choice) { return (token + choice) % 3; }},
          {"exact balance", [](std::int64_t token, std::int64_t choice) { return (token * kChoices + choice) % kExperts; },
           [](std::int64_t) { return 12; }},
          {"dropped choices", [spread](std::int64_t token, std::int64_t choice) { return token % 3 == choice ? -1 : spread(token, choice); }},
          {"everything dropped", [](std::int64_t, std::int64_t) { return -1; }},
          {"ranks without tokens", spread, [](std::int64_t rank) { return rank == 1 ? 4 : 0; }},
          {"no tokens at all", spread, [](std::int64_t) { return 0; }}};
}

RANKS_TEST(ExpertDispatch, GivesWhatExpertsAtHomeGive, 1, 2, 3, 4, 8) {
  const auto world = test::world_communicator();
  const std::int64_t here = kExperts / world->size(), first = here * world->rank();
  const auto dispatcher = expert_parallel_dispatcher(*world);
  const auto local = model::local_dispatcher();
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Tokens tokens = tokens_of(world->rank(), c.num_tokens(world->rank()), c.choose, at::kDouble);
    const DispatchResults results = dispatch(*dispatcher, tokens, experts_from(first, here, at::kDouble));
    DispatchResults expected = dispatch(*local, tokens, experts_from(0, kExperts, at::kDouble));
    world->all_reduce(expected.expert_gradient).wait();
    EXPECT_LE(difference(results.output, expected.output), 1e-13);
    EXPECT_LE(difference(results.tokens_gradient, expected.tokens_gradient), 1e-13);
    EXPECT_LE(difference(results.weights_gradient, expected.weights_gradient), 1e-13);
    EXPECT_LE(difference(results.expert_gradient, expected.expert_gradient.narrow(0, first * kWidth, here * kWidth)), 1e-12);
  }
}

/// Tokens that go from one rank to another, each counted once, and their choices.
struct Flow {
  std::int64_t tokens = 0, choices = 0;
};
Flow flow(std::int64_t from, std::int64_t to, const Case& c, std::int64_t experts_per_rank) {
  Flow flow;
  for (std::int64_t token = 0; token < c.num_tokens(from); ++token) {
    bool goes = false;
    for (std::int64_t choice = 0; choice < kChoices; ++choice) {
      const std::int64_t expert = c.choose(token, choice);
      if (expert < 0 || expert / experts_per_rank != to) continue;
      goes = true;
      ++flow.choices;
    }
    flow.tokens += goes ? 1 : 0;
  }
  return flow;
}

RANKS_TEST(ExpertDispatch, SendsTheBytesOfTheFormulaAndNoMore, 2, 4) {
  comm::Traffic traffic;
  const auto counting = comm::decorated_backend(test::backend(), [&](auto inner) { return comm::counting_communicator(std::move(inner), traffic); });
  const auto world = counting->communicator(test::world_communicator()->members(), "ep");
  const auto dispatcher = expert_parallel_dispatcher(*world);
  const std::int64_t size = world->size(), rank = world->rank(), here = kExperts / size;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Flow away, in;
    for (std::int64_t other = 0; other < size; ++other) {
      if (other == rank) continue;
      const Flow out = flow(rank, other, c, here), back = flow(other, rank, c, here);
      away = {away.tokens + out.tokens, away.choices + out.choices};
      in = {in.tokens + back.tokens, in.choices + back.choices};
    }
    const Tokens tokens = tokens_of(rank, c.num_tokens(rank), c.choose, at::kFloat);
    traffic = {};
    dispatch(*dispatcher, tokens, experts_from(rank * here, here, at::kFloat));
    const std::int64_t counts = (size - 1) * 2 * 8, row = kWidth * 4;
    EXPECT_EQ(traffic.bytes(comm::OperationKind::AllToAll), counts + 2 * (away.tokens + in.tokens) * row + away.choices * 8 + in.choices * 4);
    EXPECT_EQ(traffic.num(comm::OperationKind::AllToAll), 7);
  }
}

RANKS_TEST(ExpertDispatch, OtherWorkIsDoneWhileTokensTravel, 2) {
  comm::Traffic traffic;
  const auto counting = comm::decorated_backend(test::backend(), [&](auto inner) { return comm::counting_communicator(std::move(inner), traffic); });
  const auto world = counting->communicator(test::world_communicator()->members(), "ep");
  const auto dispatcher = expert_parallel_dispatcher(*world);
  const std::int64_t here = kExperts / 2;
  std::vector<std::int64_t> issued;
  const Tokens tokens = tokens_of(world->rank(), 9, cases().front().choose, at::kFloat);
  dispatch(*dispatcher, tokens, experts_from(world->rank() * here, here, at::kFloat), [&](ops::Tape& tape) {
    issued.push_back(traffic.num(comm::OperationKind::AllToAll));
    tape.record([&] { issued.push_back(traffic.num(comm::OperationKind::AllToAll)); });
  });
  // Counts, choices and tokens are on their way, the results are still to come; later so are the gradients of results, choices and tokens.
  EXPECT_EQ(issued, (std::vector<std::int64_t>{3, 7}));
}

// A rank that is not recorded keeps nothing and sends what the others expect.
RANKS_TEST(ExpertDispatch, WithoutARecordOnlyResultsTravel, 2) {
  const auto world = test::world_communicator();
  const auto dispatcher = expert_parallel_dispatcher(*world);
  const std::int64_t here = kExperts / 2;
  const Tokens tokens = tokens_of(world->rank(), 9, cases().front().choose, at::kBFloat16);
  ops::Parameter experts = experts_from(world->rank() * here, here, at::kBFloat16);
  ops::Tape tape(ops::Tape::Mode::Inference);
  const auto compute = [&](ops::Tape& inner, const ops::Variable& rows, const std::vector<std::int64_t>& counts) {
    return ops::grouped_linear(inner, rows, experts, nullptr, counts);
  };
  const ops::Variable weights = tape.variable(tokens.weights_NK.to(at::kFloat));
  const ops::Variable output = (*dispatcher)(tape, tape.variable(tokens.tokens_ND), {tokens.experts_NK, weights}, kExperts, compute, {});
  EXPECT_EQ(output.value.scalar_type(), at::kBFloat16);
  EXPECT_EQ(tape.size(), 0U);
}

}  // namespace
}  // namespace tessera::parallel
