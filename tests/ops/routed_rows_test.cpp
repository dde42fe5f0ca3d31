#include "tessera/ops/routed_rows.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "ops/trial.h"

namespace tessera::ops::test {
namespace {

using testing::ElementsAre;
using Numbers = std::vector<std::int64_t>;

Numbers numbers(const at::Tensor& tensor) { return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()}; }

// Row 0 chooses groups 2 and 0, row 1 none, row 2 groups 2, 1 and one that is not here.
TEST(RouteRows, SortsPairsByGroupAndKeepsTheirOrderWithin) {
  const RoutedRows routed = route_rows({2, 0, 2, 1, 7}, {2, 0, 3}, 4);
  EXPECT_THAT(routed.rows_per_group, ElementsAre(1, 1, 2, 0));
  EXPECT_THAT(numbers(routed.row_P), ElementsAre(0, 2, 0, 2));
  EXPECT_THAT(numbers(routed.pair_P), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(numbers(routed.start_N1), ElementsAre(0, 2, 2, 5));
  EXPECT_THAT(numbers(routed.place), ElementsAre(2, 0, 3, 1, -1));
}

TEST(RouteRows, TakesAMatrixOfChoices) {
  const RoutedRows routed = route_rows(index_tensor({1, -1, 0, 1}).view({2, 2}), 2);
  EXPECT_THAT(routed.rows_per_group, ElementsAre(1, 2));
  EXPECT_THAT(numbers(routed.row_P), ElementsAre(1, 0, 1));
  EXPECT_THAT(numbers(routed.start_N1), ElementsAre(0, 2, 4));
}

TEST(RouteRows, NoRows) {
  const RoutedRows routed = route_rows({}, {}, 3);
  EXPECT_THAT(routed.rows_per_group, ElementsAre(0, 0, 0));
  EXPECT_EQ(routed.num_rows(), 0);
  EXPECT_EQ(routed.num_places(), 0);
}

class RoutedRowsOperators : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, RoutedRowsOperators, every_precision(), precision_name);

constexpr std::int64_t kGroups = 5, kChoices = 3;

/// [N, 3] choices of which some are made twice, some are nowhere, and one group has none.
at::Tensor choices(std::int64_t rows) {
  Numbers groups;
  for (std::int64_t pair = 0; pair < rows * kChoices; ++pair) groups.push_back(pair % 7 == 3 ? -1 : pair * pair % 4);
  return index_tensor(groups).view({rows, kChoices});
}

TEST_P(RoutedRowsOperators, RowsGoToTheirPlaces) {
  for (const std::int64_t rows : {1, 6, 300}) {
    const RoutedRows routed = route_rows(choices(rows), kGroups);
    Trial trial(GetParam());
    Trial::Leaf& x = trial.activation("input", {rows, 19});
    const Variable places = rows_to_places(trial.tape(), x.variable, routed);
    EXPECT_TRUE(bitwise_equal(places.save().get(), places.value));
    trial.expect(places, at::index_select(x.twin, 0, routed.row_P));
  }
}

TEST_P(RoutedRowsOperators, PlacesAreSummed) {
  const RoutedRows routed = route_rows(choices(9), kGroups);
  Trial trial(GetParam());
  Trial::Leaf& y = trial.activation("places", {routed.num_places(), 19});
  trial.expect(rows_from_places(trial.tape(), y.variable, nullptr, routed), at::zeros({9, 19}, at::kDouble).index_add(0, routed.row_P, y.twin));
}

// Weights are in fp32 whatever the rows are in.
TEST_P(RoutedRowsOperators, PlacesAreSummedByWeight) {
  for (const std::int64_t rows : {1, 9, 300}) {
    const RoutedRows routed = route_rows(choices(rows), kGroups);
    Trial trial(GetParam());
    Trial::Leaf& y = trial.activation("places", {routed.num_places(), 19});
    Tape& tape = trial.tape();
    const at::ScalarType type = GetParam().type == at::kDouble ? at::kDouble : at::kFloat;
    const Variable weights = tape.variable(random_tensor({rows, kChoices}, 5, type));
    const at::Tensor twin = weights.value.to(at::kDouble, false, true).set_requires_grad(true);
    const at::Tensor factors = at::index_select(twin.view({-1}), 0, routed.pair_P).unsqueeze(1);
    trial.expect(rows_from_places(tape, y.variable, &weights, routed),
                 at::zeros({rows, 19}, at::kDouble).index_add(0, routed.row_P, y.twin * factors));
    EXPECT_EQ(weights.gradient->value().scalar_type(), type);
    EXPECT_LE(relative_error(weights.gradient->value(), twin.grad()), GetParam().tolerance);
  }
}

TEST_P(RoutedRowsOperators, ThereAndBackIsTheSumOfWeights) {
  const RoutedRows routed = route_rows(choices(30), kGroups);
  Tape tape(Tape::Mode::Inference);
  const Variable x = tape.variable(random_tensor({30, 16}, 1, GetParam().type));
  const Variable weights = tape.variable(at::ones({30, kChoices}, GetParam().type == at::kDouble ? at::kDouble : at::kFloat));
  const at::Tensor back = rows_from_places(tape, rows_to_places(tape, x, routed), &weights, routed).value;
  const at::Tensor times = choices(30).ge(0).sum(1, true).to(at::kDouble);
  EXPECT_LE(relative_error(back, x.value.to(at::kDouble) * times), GetParam().tolerance);
}

}  // namespace
}  // namespace tessera::ops::test
