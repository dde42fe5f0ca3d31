#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/comm/communicator.h"

namespace tessera::comm {
namespace {

using Counts = std::vector<std::int64_t>;

TEST(SelfCommunicator, GivesBackWhatItGets) {
  const auto self = self_communicator(3);
  EXPECT_EQ(self->rank(), 0);
  EXPECT_EQ(self->size(), 1);
  EXPECT_THAT(self->members(), testing::ElementsAre(3));
  const at::Tensor input = at::arange(5, at::kFloat);
  const at::Tensor output = at::empty({5});
  self->all_reduce(input, ReduceOperation::Sum, at::kBFloat16).wait();
  self->broadcast(input, 0).wait();
  self->reduce_scatter(input, Counts{5}, output).wait();
  EXPECT_TRUE(at::equal(output, at::arange(5, at::kFloat)));
  output.zero_();
  self->all_gather(input, Counts{5}, output).wait();
  EXPECT_TRUE(at::equal(output, input));
  output.zero_();
  self->all_to_all(input, Counts{5}, output, Counts{5}).wait();
  EXPECT_TRUE(at::equal(output, input));
  self->barrier();
}

TEST(SelfCommunicator, ChecksItsArguments) {
  const auto self = self_communicator();
  const at::Tensor tensor = at::zeros({4});
  EXPECT_THAT(test::error_of([&] { self->all_gather(tensor, Counts{3}, tensor); }), testing::HasSubstr("(4) as the counts add up to (3)"));
  EXPECT_THAT(test::error_of([&] { self->all_gather(tensor, Counts{2, 2}, tensor); }), testing::HasSubstr("1 counts, one per rank"));
  EXPECT_THAT(test::error_of([&] { self->all_reduce(tensor.view({2, 2}).t()); }), testing::HasSubstr("tensors are contiguous"));
  EXPECT_THAT(test::error_of([&] { self->all_reduce(tensor, ReduceOperation::Sum, at::kInt); }), testing::HasSubstr("floating-point"));
  EXPECT_THAT(test::error_of([&] { self->all_reduce(tensor.to(at::kFloat8_e5m2)); }), testing::HasSubstr("reduced are float32"));
  EXPECT_THAT(test::error_of([&] { self->broadcast(tensor, 1); }), testing::HasSubstr("the root is a rank of the group"));
  EXPECT_THAT(test::error_of([&] { self->send(tensor, 0); }), testing::HasSubstr("another rank"));
}

TEST(SelfBackend, IsOneRank) {
  const auto backend = self_backend();
  EXPECT_EQ(backend->world_size(), 1);
  EXPECT_EQ(backend->communicator({0}, "world")->size(), 1);
}

}  // namespace
}  // namespace tessera::comm
