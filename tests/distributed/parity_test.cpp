// Every way of sharing the work over data-parallel ranks gives what one process gives.
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "distributed/ranks.h"
#include "support/support.h"
#include "tessera/data/collate.h"
#include "tessera/data/sampler.h"
#include "tessera/model/config.h"
#include "tessera/train/step.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using model::ActivationCheckpointing;
using Tensors = std::map<std::string, at::Tensor>;

constexpr std::int64_t kRows = 24, kLength = 20, kSteps = 10;

struct Policy {
  std::string name;
  config::Distributed distributed;
  std::int64_t multiple = 1;  ///< of which the number of ranks must be, and more
};

Policy fsdp2(const std::string& name, const std::function<void(config::Distributed&)>& change = {}) {
  Policy policy{.name = name, .distributed = {.strategy = config::Strategy::Fsdp2}};
  if (change) change(policy.distributed);
  return policy;
}

Policy zero(std::int64_t stage) {
  Policy policy{.name = fmt::format("zero-{}", stage), .distributed = {.strategy = config::Strategy::MegatronFsdp}};
  policy.distributed.megatron_fsdp.zero_dp_strategy = stage;
  return policy;
}

std::vector<Policy> policies(std::int64_t ranks) {
  std::vector<Policy> all{{.name = "ddp", .distributed = {.strategy = config::Strategy::Ddp}},
                          fsdp2("fsdp2"),
                          fsdp2("fsdp2-every-microbatch", [](auto& d) { d.fsdp2.defer_fsdp_grad_sync = false; }),
                          fsdp2("fsdp2-keep-weights",
                                [](auto& d) {
                                  d.fsdp2.reshard_after_forward = false;
                                  d.fsdp2.enable_fsdp2_prefetch = false;
                                }),
                          zero(0),
                          zero(1),
                          zero(2),
                          zero(3)};
  for (const std::int64_t replicas : {2, 4}) {
    if (ranks <= replicas || ranks % replicas != 0) continue;
    all.push_back(fsdp2(fmt::format("hybrid-{}", replicas), [&](auto& d) { d.sizes.dp_replicate_size = replicas; }));
  }
  return all;
}

struct Case {
  std::string model;
  Policy policy;
  std::int64_t accumulation = 1;
  ActivationCheckpointing checkpointing = ActivationCheckpointing::None;
  DType dtype = DType::F32;

  std::string name() const {
    return fmt::format("{} {} accumulation {} checkpointing {} {}", model, policy.name, accumulation, static_cast<int>(checkpointing),
                       to_string(dtype));
  }
};

/// What a run leaves behind.
struct Trajectory {
  Tensors gradients;  ///< of the first step
  std::vector<double> losses, norms;
  Tensors weights;  ///< after the last
};

/// Ragged rows: some without any label, so that some ranks and microbatches have none.
data::Batch rows(std::int64_t begin, std::int64_t end, std::int64_t vocabulary) {
  data::Batch batch{.rows = end - begin, .length = kLength};
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t labels = row % 4 == 3 ? 0 : (row * 7) % (kLength - 1) + 1;
    for (std::int64_t position = 0; position < kLength; ++position) {
      batch.input_ids.push_back((row * 131 + position * 17 + row * position) % vocabulary);
      batch.labels.push_back(position < labels ? (row * 61 + position * 29) % vocabulary : data::ignored_label);
      batch.position_ids.push_back(position);
    }
    batch.lengths.push_back(kLength);
    batch.numbers.push_back(row);
  }
  return batch;
}

std::vector<data::Batch> microbatches(const mesh::MeshContext& mesh, std::int64_t accumulation, std::int64_t vocabulary) {
  const std::int64_t parts = mesh.dp_size() * accumulation;
  const data::StepShape shape{
      .num_samples = kRows, .global_batch_size = kRows, .local_batch_size = (kRows + parts - 1) / parts, .dp_size = mesh.dp_size()};
  const data::StepPlan plan = data::plan_step(shape, {});
  std::vector<data::Batch> result;
  for (std::int64_t number = 0; number < plan.num_microbatches; ++number) {
    const auto [begin, end] = data::microbatch_positions(shape, plan, mesh.dp_rank(), number);
    result.push_back(begin == end ? data::filler_batch({}) : rows(begin, end, vocabulary));
  }
  return result;
}

Tensors copies(const Tensors& tensors) {
  Tensors result;
  for (const auto& [name, tensor] : tensors) result.emplace(name, tensor.to(at::kDouble, false, true));
  return result;
}

fs::path directory_of(const std::string& model) {
  const fs::path committed = test::test_data("goldens") / model;
  return fs::exists(committed) ? committed : test::shared_data("goldens/" + model);
}

/// eps 1e-6: with less, Adam turns the rounding noise of gradients near zero into steps.
Trajectory run(const Case& c, comm::Backend& backend, std::int64_t steps = kSteps) {
  const fs::path directory = directory_of(c.model);
  const model::ModelSpec spec = model::read_model_spec(directory);
  const auto setup = parallel::DistributedSetup::build(backend, c.policy.distributed);
  const std::vector<data::Batch> parts = microbatches(*setup.mesh, c.accumulation, spec.vocab_size);
  parallel::CausalLM model = parallel::CausalLM::from_pretrained(
      directory, spec, setup, {.dtype = c.dtype, .trainable = true, .decoder = {.activation_checkpointing = c.checkpointing}},
      static_cast<std::int64_t>(parts.size()));
  optim::Optimizer optimizer(*model.model.store, {.betas = {0.9, 0.95}, .epsilon = 1e-6});
  Trajectory result;
  for (std::int64_t step = 0; step < steps; ++step) {
    const StepResult done =
        training_step(model, optimizer, parts, static_cast<std::uint64_t>(step), {.learning_rate = 1e-3, .weight_decay = 0.1}, 1.0);
    result.losses.push_back(done.gradients.loss);
    result.norms.push_back(done.gradient_norm);
    if (step == 0) result.gradients = copies(parallel::whole_gradients(model));
  }
  result.weights = copies(parallel::whole_weights(model));
  return result;
}

/// The same in this process alone.
const Trajectory& alone(const std::string& model, DType dtype) {
  static std::map<std::string, Trajectory> known;
  static const std::unique_ptr<comm::Backend> self = comm::self_backend();
  const std::string key = model + std::string(to_string(dtype));
  if (!known.contains(key)) known.emplace(key, run({.model = model, .policy = {}, .dtype = dtype}, *self));
  return known.at(key);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / std::max(b.abs().max().item<double>(), 1e-30);
}

/// Largest difference of any tensor, relative to its largest element.
double distance(const Tensors& a, const Tensors& b) {
  double largest = a.size() == b.size() ? 0.0 : INFINITY;
  for (const auto& [name, tensor] : b) largest = std::max(largest, distance(a.at(name), tensor));
  return largest;
}

void expect_close(const Tensors& a, const Tensors& b, const std::function<double(const std::string&)>& tolerance) {
  EXPECT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : b) EXPECT_LE(distance(a.at(name), tensor), tolerance(name)) << name;
}

/// Of gradients and of weights after ten steps. The softmax does not feel a bias of all keys: the true gradient of gpt2's is zero, and Adam makes
/// steps of its rounding noise.
double gradient_tolerance(const std::string&) { return 1e-5; }
double weight_tolerance(const std::string& name) { return name.ends_with("c_attn.bias") ? 2e-5 : 1e-5; }

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return largest;
}

void expect_parity(const Case& c) {
  SCOPED_TRACE(c.name());
  const Trajectory result = run(c, test::backend());
  if (c.dtype == DType::F32) {
    const Trajectory& expected = alone(c.model, DType::F32);
    expect_close(result.gradients, expected.gradients, gradient_tolerance);
    EXPECT_LE(distance(result.losses, expected.losses), 1e-5);
    EXPECT_LE(distance(result.norms, expected.norms), 1e-5);
    expect_close(result.weights, expected.weights, weight_tolerance);
    return;
  }
  // Rounding to bf16 moves everything: no further from the truth than one process is.
  const Trajectory &truth = alone(c.model, DType::F64), &one = alone(c.model, DType::BF16);
  const double half_step = 0x1p-9;
  EXPECT_LE(distance(result.gradients, truth.gradients), 1.5 * distance(one.gradients, truth.gradients));
  EXPECT_LE(distance(result.losses, truth.losses), std::max(1.5 * distance(one.losses, truth.losses), half_step));
  EXPECT_LE(distance(result.norms, truth.norms), std::max(1.5 * distance(one.norms, truth.norms), half_step));
}

/// Those committed; with the vectors beside the checkout, every architecture that differs in its parameters.
std::vector<std::string> all_models() {
  std::vector<std::string> names;
  for (const char* name : {"llama_tied_llama3_rope", "qwen3", "gpt2", "gemma2", "phi3_longrope", "olmo2", "gemma3", "granite"})
    if (fs::exists(directory_of(name))) names.emplace_back(name);
  return names;
}

std::vector<Case> all_cases(const std::vector<std::string>& models, DType dtype) {
  std::vector<Case> all;
  for (const std::string& model : models)
    for (const Policy& policy : policies(test::backend().world_size()))
      for (const std::int64_t accumulation : {1, 3})
        for (const auto checkpointing : {ActivationCheckpointing::None, ActivationCheckpointing::Full})
          all.push_back({model, policy, accumulation, checkpointing, dtype});
  return all;
}

/// A sample that differs between numbers of ranks and not between runs.
std::vector<Case> some_cases(DType dtype, std::size_t count) {
  std::vector<Case> sample = all_cases({"llama_tied_llama3_rope", "qwen3", "gpt2", "gemma2"}, dtype);
  std::mt19937 random(static_cast<unsigned>(test::backend().world_size()));
  std::shuffle(sample.begin(), sample.end(), random);
  sample.resize(std::min(sample.size(), count));
  return sample;
}

void expect_parity(const std::vector<Case>& cases) {
  for (const Case& c : cases) expect_parity(c);
  if (test::backend().rank() == 0) fmt::print("{} compositions over {} ranks\n", cases.size(), test::backend().world_size());
}

TEST(Parity, SinglePrecision) { expect_parity(some_cases(DType::F32, 8)); }
TEST(Parity, HalfPrecision) { expect_parity(some_cases(DType::BF16, 4)); }
TEST(Parity, LONG_SinglePrecision) { expect_parity(all_cases(all_models(), DType::F32)); }
TEST(Parity, LONG_HalfPrecision) { expect_parity(all_cases(all_models(), DType::BF16)); }

TEST(Parity, TwiceTheSameBits) {
  for (const Policy& policy : policies(test::backend().world_size())) {
    SCOPED_TRACE(policy.name);
    const Case c{.model = "llama_tied_llama3_rope", .policy = policy, .accumulation = 3, .dtype = DType::BF16};
    const Trajectory first = run(c, test::backend(), 2), second = run(c, test::backend(), 2);
    EXPECT_EQ(first.losses, second.losses);
    for (const auto& [name, weight] : first.weights) EXPECT_TRUE(at::equal(weight, second.weights.at(name))) << name;
  }
}

}  // namespace
}  // namespace tessera::train
