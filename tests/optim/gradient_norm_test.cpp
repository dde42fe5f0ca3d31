#include "tessera/optim/gradient_norm.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "optim/small_table.h"

namespace tessera::optim {
namespace {

using test::small_table;
using testing::HasSubstr;

TEST(GradientNormTest, IsTheNormOfAllGradientsAsOneVector) {
  for (const DType dtype : {DType::F32, DType::BF16, DType::F64}) {
    model::ParameterStore store(small_table(), test::store_options(dtype));
    test::fill_gradients(store);
    double squares = 0.0;
    for (std::size_t i = 0; i < store.table().parameters.size(); ++i)
      squares += store.parameter(i).gradient.to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(sum_of_squared_gradients(store), squares, 1e-12 * squares);
    EXPECT_NEAR(std::sqrt(sum_of_squared_gradients(store)), std::sqrt(squares), 1e-12 * squares);
  }
}

TEST(GradientNormTest, FrozenParametersDoNotCount) {
  model::ParameterStore store(small_table(), {.frozen = [](const model::ParameterSpec& spec) { return spec.name != "norm.weight"; }});
  test::fill_gradients(store);
  EXPECT_NEAR(std::sqrt(sum_of_squared_gradients(store)), store.parameter("norm.weight").gradient.norm().item<double>(), 1e-6);
}

TEST(GradientNormTest, ClipsAsTorch) {
  EXPECT_EQ(clip_coefficient(0.5, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(clip_coefficient(4.0, 1.0), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(clip_coefficient(0.0, 1.0), 1.0);
  EXPECT_EQ(clip_coefficient(100.0, std::nullopt), 1.0);
}

TEST(GradientNormTest, NamesTheTensorThatIsNotFinite) {
  for (const DType dtype : {DType::F32, DType::F64}) {
    model::ParameterStore store(small_table(), test::store_options(dtype));
    test::fill_gradients(store);
    EXPECT_FALSE(find_nonfinite_gradient(store).has_value());
    store.parameter("norm.weight").gradient[3].fill_(std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(to_string(*find_nonfinite_gradient(store)), "the gradient of model.norm.weight is NaN (element 3 of norm.weight)");
    store.parameter("gate_up.weight").gradient[4][1].fill_(-std::numeric_limits<double>::infinity());
    EXPECT_EQ(to_string(*find_nonfinite_gradient(store)), "the gradient of layers.0.up.weight is -Inf (element 21 of gate_up.weight)");
  }
}

}  // namespace
}  // namespace tessera::optim
