#include "tessera/optim/optimizer.h"

#include <gmock/gmock.h>

#include <cmath>

#include "optim/small_table.h"
#include "support/support.h"
#include "tessera/core/json.h"
#include "tessera/optim/gradient_norm.h"

namespace tessera::optim {
namespace {

using test::error_of;
using test::small_table;
using testing::ElementsAre;
using testing::HasSubstr;

model::ParameterTable golden_table(const Json& golden) {
  model::ParameterTable table;
  for (const auto& shape : golden.at("shapes").get<std::vector<std::vector<std::int64_t>>>()) {
    model::ParameterSpec spec;
    spec.name = "p" + std::to_string(table.parameters.size());
    spec.shape = shape;
    spec.pieces = {test::whole(spec.name, shape)};
    table.parameters.push_back(spec);
  }
  table.num_units = 1;
  return table;
}

// Copies consecutive values into a flat buffer's parameters, or the other way round.
void scatter(at::Tensor flat, const model::FlatBuffer& buffer, const std::vector<double>& values) {
  std::size_t next = 0;
  for (const auto& range : buffer.ranges)
    for (std::int64_t i = 0; i < range.size; ++i) flat[range.begin + i].fill_(values[next++]);
}
std::vector<double> gather(const at::Tensor& flat, const model::FlatBuffer& buffer) {
  std::vector<double> values;
  for (const auto& range : buffer.ranges)
    for (std::int64_t i = 0; i < range.size; ++i) values.push_back(flat[range.begin + i].item<double>());
  return values;
}

// Errors are measured against the value, or against `floor` where values are smaller (a difference that nearly cancelled).
void expect_near(const std::vector<double>& got, const Json& expected, double relative, double floor, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double want = expected[i].get<double>();
    EXPECT_NEAR(got[i], want, relative * std::max(floor, std::abs(want))) << what << " " << i;
  }
}

struct GoldenCase {
  OptimizerKind kind;
  const char* name;
  DType dtype;
  const char* torch;  // which of torch's results
  double relative;
};

class GoldenTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenTest, StepsAsTorchDoes) {
  const Json golden = read_json_file(test::test_data("optim/adam.json"));
  const Json& expected = golden.at(std::string(GetParam().name) + "." + GetParam().torch);
  model::ParameterStore store(golden_table(golden), test::store_options(GetParam().dtype));
  model::FlatBuffer& buffer = store.buffers()[0];
  scatter(buffer.master, buffer, golden.at("start").get<std::vector<double>>());
  Optimizer optimizer(store, {GetParam().kind, {golden.at("betas")[0], golden.at("betas")[1]}, golden.at("eps"), {}});
  for (std::size_t step = 0; step < golden.at("gradients").size(); ++step) {
    scatter(buffer.gradient, buffer, golden.at("gradients")[step].get<std::vector<double>>());
    const double norm = std::sqrt(sum_of_squared_gradients(store));
    EXPECT_NEAR(norm, expected.at("norms")[step].get<double>(), 1e-6 * norm);
    optimizer.step({golden.at("lr"), golden.at("weight_decay"), clip_coefficient(norm, golden.at("max_norm").get<double>())});
  }
  const double relative = GetParam().relative;
  expect_near(gather(buffer.master, buffer), expected.at("parameters"), relative, 0.1, "parameter");
  expect_near(gather(optimizer.moments()[0].first, buffer), expected.at("exp_avg"), relative, 1e-3, "exp_avg");
  expect_near(gather(optimizer.moments()[0].second, buffer), expected.at("exp_avg_sq"), relative, 1e-4, "exp_avg_sq");
  EXPECT_EQ(optimizer.num_steps(), 6);
}

INSTANTIATE_TEST_SUITE_P(AdamAndAdamW, GoldenTest,
                         testing::Values(GoldenCase{OptimizerKind::AdamW, "AdamW", DType::F64, "float64", 1e-12},
                                         GoldenCase{OptimizerKind::Adam, "Adam", DType::F64, "float64", 1e-12},
                                         GoldenCase{OptimizerKind::AdamW, "AdamW", DType::F32, "float64", 2e-6},
                                         GoldenCase{OptimizerKind::Adam, "Adam", DType::F32, "float64", 2e-6},
                                         GoldenCase{OptimizerKind::AdamW, "AdamW", DType::F32, "float32", 2e-6},
                                         GoldenCase{OptimizerKind::Adam, "Adam", DType::F32, "float32", 2e-6},
                                         GoldenCase{OptimizerKind::AdamW, "AdamW", DType::BF16, "float32", 2e-6}),
                         [](const auto& info) {
                           return std::string(info.param.name) + "_" + std::string(to_string(info.param.dtype)) + "_against_torch_" +
                                  info.param.torch;
                         });

TEST(OptimizerTest, RefreshesTheComputeCopy) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    model::ParameterStore store(small_table(), test::store_options(dtype));
    test::fill_weights(store);
    test::fill_gradients(store);
    Optimizer optimizer(store, {});
    optimizer.step({0.1, 0.1});
    for (const model::FlatBuffer& buffer : store.buffers()) EXPECT_TRUE(buffer.compute.equal(buffer.master.to(buffer.compute.scalar_type())));
  }
}

TEST(OptimizerTest, GapsBetweenParametersStayZero) {
  model::ParameterStore store(small_table(), {});
  test::fill_weights(store);
  test::fill_gradients(store);
  Optimizer optimizer(store, {});
  for (int step = 0; step < 3; ++step) optimizer.step({0.1, 0.1});
  for (const model::FlatBuffer& buffer : store.buffers()) {
    double inside = 0.0;
    for (const auto& range : buffer.ranges) inside += buffer.master.narrow(0, range.begin, range.size).abs().sum().item<double>();
    EXPECT_NEAR(buffer.master.abs().sum().item<double>(), inside, 1e-4);
  }
}

TEST(OptimizerTest, AnUnusedParameterStillDecaysAndAFrozenOneDoesNotMove) {
  model::ParameterStore store(small_table(), {.frozen = [](const model::ParameterSpec& spec) { return spec.name == "norm.weight"; }});
  test::fill_weights(store);
  store.start_gradients();
  store.finish_gradients();
  const at::Tensor unused = store.master(0).clone();
  const at::Tensor frozen = store.master(4).clone();
  Optimizer optimizer(store, {});
  optimizer.step({0.5, 0.1});
  EXPECT_TRUE(store.master(0).allclose(unused * 0.95));
  EXPECT_TRUE(store.master(4).equal(frozen));
  for (std::size_t b = 0; b < store.buffers().size(); ++b) EXPECT_EQ(optimizer.moments()[b].first.defined(), store.buffers()[b].trainable);
}

// With zero gradients a step is nothing but decay: the share that is left tells the multipliers.
double share_left(const GroupOptions& groups, std::size_t parameter, std::int64_t row) {
  model::ParameterStore store(small_table(), {});
  test::fill_weights(store);
  store.start_gradients();
  store.finish_gradients();
  const double before = store.master(parameter)[row].sum().item<double>();
  Optimizer optimizer(store, {.groups = groups});
  optimizer.step({0.5, 0.1});
  return store.master(parameter)[row].sum().item<double>() / before;
}

TEST(OptimizerTest, DecayGroupsSpareBiasesAndNorms) {
  const GroupOptions groups{.decay_groups = true};
  EXPECT_NEAR(share_left(groups, 0, 1), 0.95, 1e-6);
  EXPECT_NEAR(share_left(groups, 3, 1), 1.0, 1e-6);
  EXPECT_NEAR(share_left(groups, 4, 1), 1.0, 1e-6);
  EXPECT_NEAR(share_left({}, 4, 1), 0.95, 1e-6);
}

TEST(OptimizerTest, PatternsReachInsideAFusedParameter) {
  const GroupOptions groups{.patterns = {{"up\\.weight$", {2.0, 3.0}}, {"layers", {1.0, 0.0}}}};
  EXPECT_NEAR(share_left(groups, 1, 3), 1.0, 1e-6);   // gate: the second pattern
  EXPECT_NEAR(share_left(groups, 1, 4), 0.70, 1e-6);  // up: lr × 2, decay × 3
  EXPECT_NEAR(share_left(groups, 0, 0), 0.95, 1e-6);
}

TEST(OptimizerTest, ReportsPatternsThatAreWrongOrMatchNothing) {
  model::ParameterStore store(small_table(), {});
  const Optimizer optimizer(store, {.groups = {.patterns = {{"experts", {}}, {"norm", {}}}}});
  EXPECT_THAT(optimizer.unmatched_patterns(), ElementsAre("experts"));
  EXPECT_THAT(error_of([&] { Optimizer(store, {.groups = {.patterns = {{"(", {}, "recipe.yaml:7"}}}}); }),
              HasSubstr("recipe.yaml:7: optimizer.param_group_overrides: \"(\" is not a regular expression"));
}

}  // namespace
}  // namespace tessera::optim
