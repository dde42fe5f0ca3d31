#include "tessera/optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <regex>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/model/flat_memory.h"
#include "tessera/ops/cpu/optimizer.h"

namespace tessera::optim {
namespace {

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::regex> compile_patterns(const std::vector<PatternGroup>& groups) {
  std::vector<std::regex> patterns;
  ProblemList problems;
  for (const PatternGroup& group : groups) {
    try {
      patterns.emplace_back(group.pattern);
    } catch (const std::regex_error& error) {
      problems.add({group.where, fmt::format("optimizer.param_group_overrides: \"{}\" is not a regular expression: {}", group.pattern, error.what()),
                    "a pattern is an ECMAScript regular expression over parameter names",
                    "correct it; a literal bracket or dot is written \\[ or \\."});
    }
  }
  problems.throw_if_any();
  return patterns;
}

std::optional<std::size_t> first_match(const std::vector<std::regex>& patterns, const std::string& name) {
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (std::regex_search(name, patterns[i])) return i;
  return std::nullopt;
}

bool takes_fused_kernel(const model::FlatBuffer& buffer) {
  if (!buffer.master.is_cpu() || buffer.master.scalar_type() != at::kFloat) return false;
  return buffer.compute_shard.scalar_type() == at::kFloat || buffer.compute_shard.scalar_type() == at::kBFloat16;
}

bool is_master(const model::FlatBuffer& buffer) { return buffer.compute_shard.is_same(buffer.master); }

at::Tensor zeros_like_master(const model::FlatBuffer& buffer) {
  if (!buffer.master.is_cpu()) return at::zeros_like(buffer.master);
  return model::allocate_flat(buffer.master.numel(), buffer.master.scalar_type() == at::kDouble ? DType::F64 : DType::F32);
}

struct AdamTensors {
  at::Tensor parameter, first, second, gradient;  // [n], one dtype
};

// torch.optim's own sequence of operations, for any device and dtype.
void adam_step_composite(AdamTensors tensors, OptimizerKind kind, const AdamOptions& options, const StepOptions& step, std::int64_t num_steps) {
  const auto [beta1, beta2] = std::pair(options.betas[0], options.betas[1]);
  at::Tensor gradient = step.gradient_scale == 1.0 ? tensors.gradient : tensors.gradient * step.gradient_scale;
  if (kind == OptimizerKind::AdamW)
    tensors.parameter.mul_(1.0 - step.learning_rate * step.weight_decay);
  else if (step.weight_decay != 0.0)
    gradient = gradient.add(tensors.parameter, step.weight_decay);
  tensors.first.lerp_(gradient, 1.0 - beta1);
  tensors.second.mul_(beta2).addcmul_(gradient, gradient, 1.0 - beta2);
  const double correction1 = 1.0 - std::pow(beta1, static_cast<double>(num_steps));
  const double correction2 = 1.0 - std::pow(beta2, static_cast<double>(num_steps));
  const at::Tensor denominator = tensors.second.sqrt().div_(std::sqrt(correction2)).add_(options.epsilon);
  tensors.parameter.addcdiv_(tensors.first, denominator, -step.learning_rate / correction1);
}

}  // namespace

Optimizer::Optimizer(model::ParameterStore& store, AdamOptions options) : store_(store), options_(std::move(options)) {
  for (const model::FlatBuffer& buffer : store_.buffers()) {
    if (buffer.trainable)
      moments_.push_back({zeros_like_master(buffer), zeros_like_master(buffer)});
    else
      moments_.emplace_back();
  }
  find_segments();
}

void Optimizer::find_segments() {
  const std::vector<std::regex> patterns = compile_patterns(options_.groups.patterns);
  std::vector<bool> matched(patterns.size(), false);
  const auto multipliers_of = [&](const model::Piece& piece, bool bias) {
    Multipliers multipliers;
    if (const std::optional<std::size_t> index = first_match(patterns, piece.tensor)) {
      matched[*index] = true;
      multipliers = options_.groups.patterns[*index].multipliers;
    }
    if (options_.groups.decay_groups && (bias || piece.tensor_shape.size() < 2)) multipliers.weight_decay = 0.0;
    return multipliers;
  };
  for (const model::PlacedPiece& placed : store_.held_pieces()) {
    const model::FlatBuffer& buffer = store_.buffers()[placed.buffer];
    if (!buffer.trainable) continue;
    const Segment next{placed.buffer, placed.begin - buffer.held.begin, product(placed.piece.size),
                       multipliers_of(placed.piece, store_.table().parameters[placed.parameter].bias)};
    // One segment goes on across the zeros between two parameters: they stay zero, and fewer segments mean fewer kernel calls.
    if (!segments_.empty() && segments_.back().buffer == placed.buffer && segments_.back().multipliers == next.multipliers)
      segments_.back().size = next.begin + next.size - segments_.back().begin;
    else
      segments_.push_back(next);
  }
  for (std::size_t i = 0; i < matched.size(); ++i)
    if (!matched[i]) unmatched_patterns_.push_back(options_.groups.patterns[i].pattern);
}

void Optimizer::step(const StepOptions& options) {
  ++num_steps_;
  for (const Segment& segment : segments_) {
    StepOptions scaled = options;
    scaled.learning_rate *= segment.multipliers.learning_rate;
    scaled.weight_decay *= segment.multipliers.weight_decay;
    step_segment(segment, scaled);
  }
}

void Optimizer::step_segment(const Segment& segment, const StepOptions& options) {
  model::FlatBuffer& buffer = store_.buffers()[segment.buffer];
  const Moments& moments = moments_[segment.buffer];
  if (!takes_fused_kernel(buffer)) {
    const auto part = [&](const at::Tensor& tensor) { return tensor.narrow(0, segment.begin, segment.size); };
    adam_step_composite({part(buffer.master), part(moments.first), part(moments.second), part(buffer.gradient_shard)}, options_.kind, options_,
                        options, num_steps_);
    if (!is_master(buffer)) part(buffer.compute_shard).copy_(part(buffer.master));
    return;
  }
  ops::cpu::AdamStep args;
  args.size = segment.size;
  args.parameter = buffer.master.data_ptr<float>() + segment.begin;
  args.first_moment = moments.first.data_ptr<float>() + segment.begin;
  args.second_moment = moments.second.data_ptr<float>() + segment.begin;
  args.gradient = buffer.gradient_shard.data_ptr<float>() + segment.begin;
  if (!is_master(buffer)) args.bfloat16_copy = static_cast<ops::cpu::bfloat16*>(buffer.compute_shard.data_ptr()) + segment.begin;
  args.learning_rate = options.learning_rate;
  args.beta1 = options_.betas[0];
  args.beta2 = options_.betas[1];
  args.epsilon = options_.epsilon;
  args.weight_decay = options.weight_decay;
  args.decoupled = options_.kind == OptimizerKind::AdamW;
  args.gradient_scale = options.gradient_scale;
  args.step = num_steps_;
  ops::cpu::adam_step(args);
}

}  // namespace tessera::optim
