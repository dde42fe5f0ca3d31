// Seconds of forward and backward, as JSON lines: the shortest of several runs, in fp32 on as many threads as OMP_NUM_THREADS says.
//   experts_benchmark grouped                        ops::grouped_linear and one ops::linear of the same FLOPs, in turn, by shape
//   experts_benchmark layer D F E K N [REPETITIONS]  a feed-forward of E experts of F, K of them for each of N tokens of D
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tessera/core/memory.h"
#include "tessera/model/expert_feed_forward.h"
#include "tessera/model/flat_memory.h"
#include "tessera/ops/grouped_linear.h"
#include "tessera/ops/linear.h"

using namespace tessera;

namespace {

using Clock = std::chrono::steady_clock;

struct Seconds {
  double forward = std::numeric_limits<double>::infinity(), backward = forward;
};

/// Runs `forward` and the backward pass from a gradient of ones-like size, and keeps the shortest of each.
void measure(const at::Tensor& input_ND, const std::function<ops::Variable(ops::Tape&, const ops::Variable&)>& forward, Seconds& shortest) {
  ops::Tape tape;
  const ops::Variable input = tape.variable(input_ND);
  const Clock::time_point begin = Clock::now();
  const ops::Variable output = forward(tape, input);
  const Clock::time_point middle = Clock::now();
  output.gradient->add_shared(output.value);
  tape.backward();
  const Clock::time_point end = Clock::now();
  shortest.forward = std::min(shortest.forward, std::chrono::duration<double>(middle - begin).count());
  shortest.backward = std::min(shortest.backward, std::chrono::duration<double>(end - middle).count());
}

ops::Parameter make_parameter(const std::vector<std::int64_t>& shape) {
  ops::Parameter parameter;
  std::int64_t size = 1;
  for (const std::int64_t dim : shape) size *= dim;
  parameter.weight = model::allocate_flat(size, DType::F32).normal_(0.0, 0.02).view(shape);
  parameter.gradient = model::allocate_flat(size, DType::F32).view(shape);
  parameter.trainable = true;
  return parameter;
}

void compare_grouped(std::int64_t experts, std::int64_t rows, std::int64_t outputs, std::int64_t inputs) {
  const at::Tensor input = at::randn({experts * rows, inputs}, at::kFloat);
  ops::Parameter stacked = make_parameter({experts, outputs, inputs}), single = make_parameter({outputs, inputs});
  const std::vector<std::int64_t> rows_per_expert(static_cast<std::size_t>(experts), rows);
  Seconds grouped, dense;
  for (int repetition = 0; repetition < 9; ++repetition) {
    stacked.gradient_written = single.gradient_written = false;
    measure(input, [&](ops::Tape& tape, const ops::Variable& x) { return ops::linear(tape, x, single); }, dense);
    measure(input, [&](ops::Tape& tape, const ops::Variable& x) { return ops::grouped_linear(tape, x, stacked, nullptr, rows_per_expert); }, grouped);
  }
  fmt::print(R"({{"experts": {}, "rows": {}, "outputs": {}, "inputs": {}, "dense": [{:.6f}, {:.6f}], "grouped": [{:.6f}, {:.6f}]}})"
             "\n",
             experts, rows, outputs, inputs, dense.forward, dense.backward, grouped.forward, grouped.backward);
  std::fflush(stdout);
}

void compare_all_grouped() {
  for (const std::int64_t experts : {8, 16, 64})
    for (const std::int64_t rows : {64, 128, 256})
      for (const auto& [outputs, inputs] : {std::pair{1536, 2048}, std::pair{2048, 768}, std::pair{1024, 1024}})
        compare_grouped(experts, rows, outputs, inputs);
}

void time_layer(const std::vector<std::int64_t>& sizes, int repetitions) {
  const std::int64_t hidden = sizes[0], width = sizes[1], num_experts = sizes[2], tokens = sizes[4];
  model::ModelSpec spec;
  spec.hidden_size = hidden;
  model::ExpertsSpec& experts = spec.experts.emplace();
  experts.num_experts = num_experts;
  experts.experts_per_token = sizes[3];
  experts.intermediate_size = width;
  experts.normalize = true;
  ops::Parameter router = make_parameter({num_experts, hidden}), gate_up = make_parameter({num_experts, 2 * width, hidden}),
                 down = make_parameter({num_experts, hidden, width});
  model::ExpertWeights weights{};
  weights.router = &router;
  weights.gate_up = &gate_up;
  weights.down = &down;
  const auto dispatcher = model::local_dispatcher();
  const model::RoutingOptions options;
  const model::SumOverRanks alone = nullptr;
  const model::RoutingCall call{.options = options, .row_N = {}, .sum_over_sequence = alone, .sum_over_microbatch = alone};
  const at::Tensor input = at::randn({tokens, hidden}, at::kFloat);
  Seconds seconds;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (ops::Parameter* const parameter : {&router, &gate_up, &down}) parameter->gradient_written = false;
    measure(
        input, [&](ops::Tape& tape, const ops::Variable& x) { return model::expert_feed_forward(tape, x, spec, weights, *dispatcher, call); },
        seconds);
  }
  fmt::print(R"({{"forward": {:.6f}, "backward": {:.6f}}})"
             "\n",
             seconds.forward, seconds.backward);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  keep_freed_memory();  // as training does
  if (const char* const threads = std::getenv("OMP_NUM_THREADS")) at::set_num_threads(std::atoi(threads));
  if (arguments.size() == 1 && arguments[0] == "grouped") {
    compare_all_grouped();
    return 0;
  }
  if (arguments.size() < 6 || arguments[0] != "layer") {
    fmt::print(stderr, "usage: experts_benchmark grouped | layer D F E K N [REPETITIONS]\n");
    return 2;
  }
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 1; i < 6; ++i) sizes.push_back(std::stoll(arguments[i]));
  time_layer(sizes, arguments.size() > 6 ? std::stoi(arguments[6]) : 5);
  return 0;
}
