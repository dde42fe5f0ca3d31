#include "tessera/parallel/expert/routes.h"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

namespace tessera::parallel {
namespace {

using testing::ElementsAre;
using Numbers = std::vector<std::int64_t>;

Numbers numbers(const at::Tensor& tensor) { return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()}; }
at::Tensor choices(const Numbers& experts, std::int64_t k) { return at::tensor(experts, at::kLong).view({-1, k}); }
auto sent(std::int64_t row, std::int64_t expert) {
  return testing::AllOf(testing::Field(&SentChoice::row, row), testing::Field(&SentChoice::expert, expert));
}

// Two ranks of three experts. Token 0 wants two of rank 1, token 1 was dropped once, token 2 wants both ranks.
TEST(ExpertRoutes, ATokenGoesToARankOnce) {
  const Departure departure = plan_departure(choices({5, 3, -1, 4, 4, 0}, 2), 2, 3);
  EXPECT_THAT(departure.rows.rows_per_group, ElementsAre(1, 3));
  EXPECT_THAT(numbers(departure.rows.row_P), ElementsAre(2, 0, 1, 2));
  EXPECT_THAT(departure.choices_per_rank, ElementsAre(1, 4));
  EXPECT_THAT(departure.number_Q, ElementsAre(5, 0, 1, 3, 4));
  EXPECT_THAT(departure.choice_Q, ElementsAre(sent(0, 0), sent(0, 2), sent(0, 0), sent(1, 1), sent(2, 1)));
}

TEST(ExpertRoutes, NoTokens) {
  const Departure departure = plan_departure(choices({}, 2), 2, 3);
  EXPECT_THAT(departure.rows.rows_per_group, ElementsAre(0, 0));
  EXPECT_THAT(departure.choices_per_rank, ElementsAre(0, 0));
}

// Two tokens from rank 0, none from rank 1, one from rank 2.
TEST(ExpertRoutes, WhatComesIsSortedByExpert) {
  const ops::RoutedRows arrival = plan_arrival({{0, 1}, {0, 0}, {1, 1}, {0, 1}}, {3, 0, 1}, {2, 0, 1}, 3);
  EXPECT_THAT(arrival.rows_per_group, ElementsAre(1, 3, 0));
  EXPECT_THAT(numbers(arrival.row_P), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(numbers(arrival.pair_P), ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(numbers(arrival.start_N1), ElementsAre(0, 2, 3, 4));
}

}  // namespace
}  // namespace tessera::parallel
