#include "ops/trial.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace tessera::ops::test {

std::string to_string(const Precision& precision) {
  const std::string type = precision.type == at::kFloat ? "Float32" : precision.type == at::kDouble ? "Float64" : "Bfloat16";
  return type + (precision.shares_gradient ? "Shared" : "");
}

at::Tensor random_tensor(at::IntArrayRef sizes, unsigned seed, at::ScalarType type) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>())));
  for (double& value : values) value = normal(generator);
  return at::tensor(values, at::kDouble).view(sizes).to(type);
}

at::Tensor index_tensor(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

double relative_error(const at::Tensor& actual, const at::Tensor& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!actual.defined() || actual.sizes() != expected.sizes()) return kInfinity;
  if (expected.numel() == 0) return 0.0;
  const at::Tensor difference = (actual.to(at::kDouble) - expected.to(at::kDouble)).abs();
  if (!at::isfinite(difference).all().item<bool>()) return kInfinity;
  return difference.max().item<double>() / std::max(expected.abs().max().item<double>(), 0.1);
}

bool bitwise_equal(const at::Tensor& a, const at::Tensor& b) { return a.scalar_type() == b.scalar_type() && at::equal(a, b); }

Parameter make_parameter(const at::Tensor& weight, bool trainable) {
  Parameter parameter;
  parameter.weight = weight;
  parameter.trainable = trainable;
  const at::ScalarType type = weight.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (trainable) parameter.gradient = at::full_like(weight, std::numeric_limits<double>::quiet_NaN(), at::TensorOptions().dtype(type));
  return parameter;
}

at::Tensor Trial::next_values(at::IntArrayRef sizes, double spread, double center) {
  return (random_tensor(sizes, seed_++) * spread + center).to(precision_.type);
}

Trial::Leaf& Trial::activation(const std::string& name, at::IntArrayRef sizes, double spread, double center) {
  const at::Tensor values = next_values(sizes, spread, center);
  leaves_.push_back({name, tape_.variable(values), {}, values.to(at::kDouble, false, true).set_requires_grad(true)});
  return leaves_.back();
}

Trial::Leaf& Trial::weight(const std::string& name, at::IntArrayRef sizes, double spread, double center, bool trainable) {
  const at::Tensor values = next_values(sizes, spread, center);
  leaves_.push_back({name, {}, make_parameter(values, trainable), values.to(at::kDouble, false, true).set_requires_grad(true)});
  return leaves_.back();
}

void Trial::expect(const Variable& output, const at::Tensor& expected) {
  EXPECT_EQ(output.value.scalar_type(), precision_.type);
  EXPECT_LE(relative_error(output.value, expected), precision_.tolerance) << "output";
  const at::Tensor gradient = random_tensor(expected.sizes(), 7, precision_.type), kept = gradient.clone();
  (expected * gradient.to(at::kDouble)).sum().backward();
  precision_.shares_gradient ? output.gradient->add_shared(gradient) : output.gradient->add_owned(gradient);
  tape_.backward();
  if (precision_.shares_gradient) {
    EXPECT_TRUE(bitwise_equal(gradient, kept)) << "a gradient that others read was changed";
  }
  expect_gradients();
}

void Trial::expect_gradients() {
  for (Leaf& leaf : leaves_) {
    if (!leaf.twin.grad().defined()) leaf.twin.mutable_grad() = at::zeros_like(leaf.twin);
    if (leaf.variable.gradient) {
      EXPECT_LE(relative_error(leaf.variable.gradient->value(), leaf.twin.grad()), precision_.tolerance) << "gradient of " << leaf.name;
    } else if (leaf.parameter.trainable) {
      EXPECT_TRUE(leaf.parameter.gradient_written) << leaf.name;
      EXPECT_LE(relative_error(leaf.parameter.gradient, leaf.twin.grad()), precision_.tolerance) << "gradient of " << leaf.name;
    }
  }
}

}  // namespace tessera::ops::test
