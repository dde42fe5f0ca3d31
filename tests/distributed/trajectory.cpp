#include "distributed/trajectory.h"

#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <queue>
#include <random>

#include "support/support.h"
#include "tessera/comm/values.h"
#include "tessera/data/collate.h"
#include "tessera/data/sampler.h"
#include "tessera/model/config.h"
#include "tessera/parallel/whole_tensors.h"
#include "tessera/train/routing.h"
#include "tessera/train/step.h"

namespace tessera::test {
namespace {

/// Some rows have no label, so that some ranks and microbatches have none. Packed rows hold three documents of unequal lengths.
data::Batch rows(std::int64_t begin, std::int64_t end, std::int64_t vocabulary, const TrainingCase& c) {
  data::Batch batch{.rows = end - begin, .length = c.length};
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t length = c.packed ? c.length - row % 3 : c.length;
    const std::int64_t labels = row % 4 == 3 ? 0 : std::min((row * 7) % (c.length - 1) + 1, length);
    const std::vector<std::int64_t> starts = c.packed ? std::vector<std::int64_t>{0, 3 + row % 5, 9 + row % 7} : std::vector<std::int64_t>{0};
    std::size_t document = 0;
    for (std::int64_t position = 0; position < c.length; ++position) {
      if (document + 1 < starts.size() && position == starts[document + 1]) ++document;
      batch.input_ids.push_back((row * 131 + position * 17 + row * position) % vocabulary);
      batch.labels.push_back(position < labels ? (row * 61 + position * 29) % vocabulary : kIgnoredLabel);
      batch.position_ids.push_back(position - starts[document]);
    }
    batch.lengths.push_back(length);
    batch.numbers.push_back(row);
    if (c.packed) batch.document_starts.push_back(starts);
  }
  return batch;
}

std::vector<data::Batch> microbatches(const mesh::MeshContext& mesh, const TrainingCase& c, std::int64_t vocabulary) {
  const std::int64_t parts = mesh.dp_size() * c.accumulation;
  const data::StepShape shape{
      .num_samples = c.rows, .global_batch_size = c.rows, .local_batch_size = (c.rows + parts - 1) / parts, .dp_size = mesh.dp_size()};
  const data::StepPlan plan = data::plan_step(shape, {});
  std::vector<data::Batch> result;
  for (std::int64_t number = 0; number < plan.num_microbatches; ++number) {
    const auto [begin, end] = data::microbatch_positions(shape, plan, mesh.dp_rank(), number);
    result.push_back(begin == end ? data::filler_batch({}) : rows(begin + 1, end + 1, vocabulary, c));
  }
  return result;
}

Tensors copies(const Tensors& tensors) {
  Tensors result;
  for (const auto& [name, tensor] : tensors) result.emplace(name, tensor.to(at::kDouble, false, true));
  return result;
}

model::ModelSpec spec_of(const TrainingCase& c) {
  model::ModelSpec spec = c.config.is_null() ? model::read_model_spec(golden_directory(c.model)) : model::model_spec_from_json(c.config, c.model);
  if (c.vocab_size > 0) spec.vocab_size = c.vocab_size;
  if (c.dropout) spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = 0.2;
  return spec;
}

parallel::CausalLM make_model(const TrainingCase& c, const parallel::DistributedSetup& setup, std::int64_t num_microbatches) {
  const auto frozen = [names = c.frozen](const model::ParameterSpec& parameter) {
    return std::ranges::any_of(names, [&](const std::string& part) { return parameter.name.find(part) != std::string::npos; });
  };
  const model::CausalLMOptions options{.dtype = c.dtype,
                                       .trainable = true,
                                       .frozen = frozen,
                                       .decoder = {.activation_checkpointing = c.checkpointing, .routing = c.routing, .dropout_seed = 5}};
  if (c.vocab_size > 0 || !c.config.is_null()) return parallel::CausalLM::from_config(spec_of(c), 3, setup, options, num_microbatches);
  return parallel::CausalLM::from_pretrained(golden_directory(c.model), spec_of(c), setup, options, num_microbatches);
}

/// Puts zeros in the place of this rank's part of all routers.
void make_routers_indifferent(parallel::CausalLM& model) {
  model::ParameterStore& store = *model.model.store;
  for (const model::PlacedPiece& piece : store.held_pieces())
    if (store.table().parameters[piece.parameter].role == model::Role::Router) model::held_view(store, piece).zero_();
  store.refresh_compute();
  model.engine->weights_loaded();
}

/// The same in this process alone.
const Trajectory& alone(const TrainingCase& c, DType dtype) {
  static std::map<std::string, Trajectory> known;
  static const std::unique_ptr<comm::Backend> self = comm::self_backend();
  TrainingCase single{.model = c.model,
                      .layout = "alone",
                      .dtype = dtype,
                      .packed = c.packed,
                      .dropout = c.dropout,
                      .vocab_size = c.vocab_size,
                      .rows = c.rows,
                      .length = c.length,
                      .steps = c.steps,
                      .indifferent_routers = c.indifferent_routers,
                      .routing = c.routing,
                      .bias_update = c.bias_update,
                      .config = c.config,
                      .frozen = c.frozen};
  if (!known.contains(single.name())) known.emplace(single.name(), run(single, *self));
  return known.at(single.name());
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

void expect_close(const Tensors& a, const Tensors& b, double tolerance) {
  EXPECT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : b) EXPECT_LE(distance(a.at(name), tensor), tolerance) << name;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return largest;
}

/// Root mean square: the largest of ten steps that go astray each in its own way says little.
double mean_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) squares += std::pow((a[i] - b[i]) / b[i], 2);
  return std::sqrt(squares / static_cast<double>(b.size()));
}

/// Equal where every bit of losses, norms and weights is.
std::string digest(const Trajectory& trajectory) {
  std::string text = fmt::format("{} {}", fmt::join(trajectory.losses, " "), fmt::join(trajectory.norms, " "));
  for (const auto& [name, tensor] : trajectory.weights) text += fmt::format(" {}", tensor.sum().item<double>());
  return text;
}

/// What has no gradient is what it was, to the bit.
void expect_untouched(const Tensors& before, const Trajectory& after) {
  for (const auto& [name, weight] : before)
    EXPECT_TRUE(after.gradients.contains(name) || at::equal(weight, after.weights.at(name))) << name << " is frozen and has changed";
}

}  // namespace

std::filesystem::path golden_directory(const std::string& model) {
  const std::filesystem::path committed = test_data("goldens") / model;
  return std::filesystem::exists(committed) ? committed : shared_data("goldens/" + model);
}

std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  for (const char* name : {"llama_tied_llama3_rope", "qwen3", "gpt2", "gemma2", "phi3_longrope", "olmo2", "gemma3", "granite"})
    if (std::filesystem::exists(golden_directory(name))) names.emplace_back(name);
  return names;
}

std::string TrainingCase::name() const {
  return fmt::format("{} {} accumulation {} checkpointing {} {}{}{}{}", model, layout, accumulation, static_cast<int>(checkpointing),
                     to_string(dtype), packed ? " packed" : "", dropout ? " dropout" : "",
                     vocab_size > 0 ? " vocabulary " + std::to_string(vocab_size) : "") +
         (rows == 24 ? "" : fmt::format(" {} rows", rows)) + (length == 20 ? "" : fmt::format(" of {} tokens", length)) +
         (steps == 10 ? "" : fmt::format(" {} steps", steps)) + (indifferent_routers ? " indifferent routers" : "") +
         fmt::format(" routing {} {} {} {}", routing.balance_loss, static_cast<int>(routing.balance_scope), routing.z_loss, bias_update) +
         (frozen.empty() ? "" : fmt::format(" frozen {}", fmt::join(frozen, " ")));
}

Trajectory run(const TrainingCase& c, comm::Backend& backend) {
  const auto setup = parallel::DistributedSetup::build(backend, c.distributed);
  const std::vector<data::Batch> parts = microbatches(*setup.mesh, c, spec_of(c).vocab_size);
  // A pipeline's schedule may be for more microbatches than there are.
  const bool pipeline = c.distributed.sizes.pp_size > 1;
  parallel::CausalLM model = make_model(c, setup, pipeline ? c.accumulation : static_cast<std::int64_t>(parts.size()));
  if (c.indifferent_routers) make_routers_indifferent(model);
  optim::Optimizer optimizer(*model.model.store, {.betas = {0.9, 0.95}, .epsilon = 1e-6});
  const Tensors before = c.frozen.empty() ? Tensors() : copies(parallel::whole_weights(model));
  const auto experts = model.model.spec.experts ? train::make_expert_training(model, c.bias_update) : nullptr;
  Trajectory result;
  for (std::int64_t step = 0; step < c.steps; ++step) {
    const train::StepResult done = train::training_step(model, optimizer, parts, static_cast<std::uint64_t>(step),
                                                        {.learning_rate = 1e-3, .weight_decay = 0.1}, 1.0, experts.get());
    result.losses.push_back(done.gradients.loss);
    result.norms.push_back(done.gradient_norm);
    if (step == 0) result.gradients = copies(parallel::whole_gradients(model));
  }
  result.weights = copies(parallel::whole_weights(model));
  expect_untouched(before, result);
  return result;
}

namespace {

/// What runs the present test again, in the folder of the checkout.
std::string command_of_this_test() {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("mpirun -n {} --oversubscribe --allow-run-as-root --bind-to none build/tests/distributed_tests --full --gtest_filter={}.{}",
                     backend().world_size(), test.test_suite_name(), test.name());
}

/// Against one process, which one rank computes.
void compare(const TrainingCase& c, const Trajectory& result) {
  if (c.dtype != DType::BF16) {
    const Trajectory& expected = alone(c, c.dtype);
    const double tolerance = c.dtype == DType::F64 ? 1e-9 : 1e-5;
    expect_close(result.gradients, expected.gradients, tolerance);
    EXPECT_LE(distance(result.losses, expected.losses), tolerance);
    EXPECT_LE(distance(result.norms, expected.norms), c.dtype == DType::F64 ? tolerance : c.norm_tolerance);
    expect_close(result.weights, expected.weights, c.dtype == DType::F64 ? tolerance : c.weight_tolerance);
    return;
  }
  // Rounding to bf16 moves everything: no further from the truth than one process is.
  const Trajectory &truth = alone(c, DType::F64), &one = alone(c, DType::BF16);
  const double half_step = 0x1p-9;
  // Ten steps of bf16 go astray each in its own way: norms by half a percent and more, whichever way the work is split.
  const double astray = 0x1p-6;
  EXPECT_LE(distance(result.gradients, truth.gradients), 1.5 * distance(one.gradients, truth.gradients));
  EXPECT_LE(mean_distance(result.losses, truth.losses), std::max(1.5 * mean_distance(one.losses, truth.losses), half_step));
  EXPECT_LE(mean_distance(result.norms, truth.norms), std::max(1.5 * mean_distance(one.norms, truth.norms), astray));
}

}  // namespace

void expect_parity(const TrainingCase& c) {
  SCOPED_TRACE(c.name() + "\nagain: " + command_of_this_test());
  const Trajectory result = run(c, backend());
  const auto world = world_communicator();
  const std::vector<std::string> digests = comm::gather(*world, digest(result));
  for (const std::string& other : digests) EXPECT_EQ(other, digests.front()) << "ranks ended differently";
  if (world->rank() == 0) compare(c, result);
  world->barrier();
}

void expect_parity(const std::vector<TrainingCase>& cases) {
  for (const TrainingCase& c : cases) expect_parity(c);
  if (backend().rank() == 0) fmt::print("{} compositions over {} ranks\n", cases.size(), backend().world_size());
}

std::vector<TrainingCase> sample(std::vector<TrainingCase> cases, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(backend().world_size()));
  std::shuffle(cases.begin(), cases.end(), random);
  cases.resize(std::min(cases.size(), count));
  return cases;
}

namespace {

/// Numbers pairs of settings as they are met.
using PairNumbers = std::map<std::pair<std::string, std::string>, std::size_t>;

std::vector<std::size_t> pairs_of_settings(const TrainingCase& c, PairNumbers& numbers) {
  const config::Distributed& d = c.distributed;
  const std::vector<std::string> settings = {
      c.model,
      fmt::format("strategy {} zero {}", static_cast<int>(d.strategy), d.megatron_fsdp.zero_dp_strategy),
      fmt::format("tp {}", d.sizes.tp_size),
      fmt::format("sequence {}", d.sequence_parallel),
      fmt::format("cp {}", d.sizes.cp_size),
      fmt::format("attention {}", d.sizes.cp_size == 1 ? -1 : static_cast<int>(d.cp_attention)),
      fmt::format("pp {}", d.sizes.pp_size),
      fmt::format("schedule {}", d.pipeline ? static_cast<int>(d.pipeline->pp_schedule) : -1),
      fmt::format("replicas {}", d.sizes.dp_replicate_size),
      fmt::format("ep {}", d.sizes.ep_size),
      fmt::format("gathered {}", d.moe ? d.moe->reshard_after_forward : d.fsdp2.reshard_after_forward.value_or(false)),
      fmt::format("accumulation {}", c.accumulation),
      fmt::format("recomputation {}", static_cast<int>(c.checkpointing)),
      fmt::format("packed {}", c.packed)};
  std::vector<std::size_t> pairs;
  for (std::size_t a = 0; a < settings.size(); ++a)
    for (std::size_t b = a + 1; b < settings.size(); ++b)
      pairs.push_back(numbers.try_emplace({settings[a], settings[b]}, numbers.size()).first->second);
  return pairs;
}

}  // namespace

std::vector<TrainingCase> covering_pairs(const std::vector<TrainingCase>& cases) {
  PairNumbers numbers;
  std::vector<std::vector<std::size_t>> pairs;
  for (const TrainingCase& c : cases) pairs.push_back(pairs_of_settings(c, numbers));
  std::vector<bool> covered(numbers.size());
  const auto adds = [&](std::size_t index) { return std::ranges::count_if(pairs[index], [&](std::size_t pair) { return !covered[pair]; }); };
  // What a case adds only shrinks: one that still adds what it did when it was queued adds the most.
  std::priority_queue<std::pair<std::ptrdiff_t, std::size_t>> queue;
  for (std::size_t index = 0; index < cases.size(); ++index) queue.emplace(adds(index), index);
  std::vector<TrainingCase> chosen;
  while (!queue.empty() && queue.top().first > 0) {
    const auto [added, index] = queue.top();
    queue.pop();
    if (const std::ptrdiff_t now = adds(index); now < added) {
      queue.emplace(now, index);
      continue;
    }
    chosen.push_back(cases[index]);
    for (const std::size_t pair : pairs[index]) covered[pair] = true;
  }
  return chosen;
}

}  // namespace tessera::test
