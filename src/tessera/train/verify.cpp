#include "tessera/train/verify.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/data/collate.h"
#include "tessera/data/sampler.h"
#include "tessera/formats/safetensors.h"
#include "tessera/model/config.h"
#include "tessera/parallel/whole_tensors.h"
#include "tessera/train/batch_tensors.h"
#include "tessera/train/step.h"

namespace tessera::train {
namespace {

/// Largest errors that pass. fp32: transformers itself in fp32 lands at 9e-6, 2e-7, 4e-6, 8e-7 and 2e-5.
struct Tolerances {
  double logits, loss, gradient, trace_loss, trace_norm;
};

constexpr Tolerances kSingle{2e-5, 1e-6, 1e-5, 5e-6, 5e-5};
// Eight mantissa bits: 4 layers of them give logits errors of a few hundredths and gradients a few percent of their largest.
constexpr Tolerances kHalf{0.15, 2e-2, 0.15, 3e-2, 0.1};

struct TraceStep {
  double loss, gradient_norm;
};

struct Golden {
  formats::SafetensorsFile tensors;
  data::Batch batch;  ///< all rows
  double loss;
  std::vector<TraceStep> trace;
};

constexpr const char* kMakeAgain = "make the golden again from the model in its directory, or name another";

at::Tensor tensor_of(const formats::SafetensorsFile& file, const std::string& name) {
  const formats::TensorInfo* info = file.find(name);
  if (info == nullptr) throw UserError({file.path().string(), "no tensor \"" + name + "\"", "a golden directory holds it", kMakeAgain});
  const at::ScalarType type = info->dtype == DType::I64 ? at::kLong : at::kFloat;
  const std::span<const std::byte> bytes = file.bytes(*info);
  return at::from_blob(const_cast<std::byte*>(bytes.data()), info->shape, type).clone();
}

std::vector<std::int64_t> to_vector(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()};
}

data::Batch read_batch(const formats::SafetensorsFile& file) {
  const at::Tensor ids = tensor_of(file, "input_ids"), labels = tensor_of(file, "labels");
  data::Batch batch{.rows = ids.size(0), .length = ids.size(1), .input_ids = to_vector(ids), .labels = to_vector(labels)};
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    for (std::int64_t position = 0; position < batch.length; ++position) batch.position_ids.push_back(position);
    batch.lengths.push_back(batch.length);
    batch.numbers.push_back(row);
  }
  return batch;
}

/// Rows [first, first + count) as a batch of their own.
data::Batch rows_of(const data::Batch& batch, std::int64_t first, std::int64_t count) {
  const auto part = [&](const std::vector<std::int64_t>& values, std::int64_t width) {
    return std::vector<std::int64_t>(values.begin() + first * width, values.begin() + (first + count) * width);
  };
  return {.rows = count,
          .length = batch.length,
          .input_ids = part(batch.input_ids, batch.length),
          .labels = part(batch.labels, batch.length),
          .position_ids = part(batch.position_ids, batch.length),
          .lengths = part(batch.lengths, 1),
          .numbers = part(batch.numbers, 1)};
}

/// This rank's microbatches of at most `local_batch_size` rows (absent: all of them); a rank without rows left gets fillers.
std::vector<data::Batch> microbatches(const data::Batch& batch, std::optional<std::int64_t> local_batch_size, const mesh::MeshContext& mesh) {
  const std::int64_t most = (batch.rows + mesh.dp_size() - 1) / mesh.dp_size();
  const data::StepShape shape{
      .num_samples = batch.rows, .global_batch_size = batch.rows, .local_batch_size = local_batch_size.value_or(most), .dp_size = mesh.dp_size()};
  const data::StepPlan plan = data::plan_step(shape, {});
  std::vector<data::Batch> parts;
  for (std::int64_t number = 0; number < plan.num_microbatches; ++number) {
    const auto [begin, end] = data::microbatch_positions(shape, plan, mesh.dp_rank(), number);
    parts.push_back(begin == end ? data::filler_batch({}) : rows_of(batch, begin, end - begin));
  }
  return parts;
}

Golden read_golden(const std::filesystem::path& directory) {
  formats::SafetensorsFile tensors(directory / "golden.safetensors");
  const std::filesystem::path json_path = directory / "golden.json";
  const Json json = read_json_file(json_path);
  std::vector<TraceStep> trace;
  double loss = 0.0;
  try {
    loss = json.at("loss").get<double>();
    for (const Json& step : json.at("adamw_trace")) trace.push_back({step.at("loss").get<double>(), step.at("grad_norm").get<double>()});
  } catch (const Json::exception& error) {
    throw UserError({json_path.string(), std::string("not a golden: ") + error.what(), "it holds loss and adamw_trace", kMakeAgain});
  }
  data::Batch batch = read_batch(tensors);
  return {std::move(tensors), std::move(batch), loss, std::move(trace)};
}

double relative(double value, double expected) { return std::abs(value - expected) / std::max(std::abs(expected), 1e-300); }

double largest_difference(const at::Tensor& a, const at::Tensor& b) { return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>(); }

Comparison compare_logits(const parallel::CausalLM& model, const Golden& golden, double tolerance) {
  const at::Tensor expected = tensor_of(golden.tensors, "logits");
  const data::Batch rows = rows_of(golden.batch, 0, expected.size(0));
  const at::Tensor logits = parallel::whole_logits(model, to_tensors(rows).inputs);
  return {"logits", largest_difference(logits.view(expected.sizes()), expected), tolerance};
}

void compare_gradients(const parallel::CausalLM& model, const Golden& golden, double tolerance, std::vector<Comparison>& comparisons) {
  const std::map<std::string, at::Tensor> gradients = parallel::whole_gradients(model);
  for (const formats::TensorInfo& info : golden.tensors.tensors()) {
    if (!info.name.starts_with("grad.")) continue;
    const std::string name = info.name.substr(5);
    if (!gradients.contains(name)) throw UserError({golden.tensors.path().string(), "the model has no tensor \"" + name + "\"", "", kMakeAgain});
    const at::Tensor expected = tensor_of(golden.tensors, info.name);
    const at::Tensor& gradient = gradients.at(name);
    const double largest = expected.abs().max().item<double>();
    comparisons.push_back({"gradient of " + name, largest_difference(gradient, expected) / std::max(largest, 1e-30), tolerance});
  }
}

void compare_trace(parallel::CausalLM& model, const Golden& golden, const std::vector<data::Batch>& parts, std::int64_t steps,
                   const Tolerances& tolerances, std::vector<Comparison>& comparisons) {
  optim::Optimizer optimizer(*model.model.store, {.kind = optim::OptimizerKind::AdamW, .betas = {0.9, 0.95}, .epsilon = 1e-8});
  const auto count = std::min<std::size_t>(static_cast<std::size_t>(steps), golden.trace.size());
  for (std::size_t step = 0; step < count; ++step) {
    const StepResult result = training_step(model, optimizer, parts, step, {.learning_rate = 1e-3, .weight_decay = 0.1}, 1.0);
    const TraceStep& expected = golden.trace[step];
    comparisons.push_back({fmt::format("step {} loss", step + 1), relative(result.gradients.loss, expected.loss), tolerances.trace_loss});
    comparisons.push_back(
        {fmt::format("step {} grad_norm", step + 1), relative(result.gradient_norm, expected.gradient_norm), tolerances.trace_norm});
  }
}

}  // namespace

bool Verification::passed() const {
  return !comparisons.empty() && std::ranges::all_of(comparisons, [](const Comparison& comparison) { return comparison.passed(); });
}

Verification verify_golden(const std::filesystem::path& directory, const VerifyOptions& options, comm::Backend& backend) {
  const Golden golden = read_golden(directory);
  const Tolerances& tolerances = options.dtype == DType::BF16 ? kHalf : kSingle;
  if (options.local_batch_size.value_or(1) < 1)
    throw UserError({"", fmt::format("local_batch_size {} is not positive", *options.local_batch_size), "",
                     "set --step_scheduler.local_batch_size to 1 or more, or leave it out"});
  const parallel::DistributedSetup setup = parallel::DistributedSetup::build(backend, options.distributed);
  const config::Distributed& distributed = options.distributed;
  const auto rows_in_pipeline = distributed.pipeline ? distributed.pipeline->pp_microbatch_size : 1;
  const std::vector<data::Batch> parts =
      microbatches(golden.batch, distributed.sizes.pp_size > 1 ? rows_in_pipeline : options.local_batch_size, *setup.mesh);
  parallel::CausalLM model = parallel::CausalLM::from_pretrained(
      directory, model::read_model_spec(directory), setup,
      {.dtype = options.dtype, .trainable = true, .decoder = {.activation_checkpointing = options.activation_checkpointing}},
      static_cast<std::int64_t>(parts.size()));
  Verification result;
  result.comparisons.push_back(compare_logits(model, golden, tolerances.logits));
  const GradientResult gradients = accumulate_gradients(model, parts, 0);
  result.comparisons.push_back({"loss", relative(gradients.loss, golden.loss), tolerances.loss});
  compare_gradients(model, golden, tolerances.gradient, result.comparisons);
  compare_trace(model, golden, parts, options.steps, tolerances, result.comparisons);
  return result;
}

}  // namespace tessera::train
