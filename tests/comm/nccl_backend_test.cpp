// What NCCL can be asked on one GPU, and what a host without one says.
#include "tessera/comm/nccl/nccl_backend.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::comm {
namespace {

using Counts = std::vector<std::int64_t>;

TEST(NcclBackend, WithoutAGpuForItARankIsRefused) {
  const launch::RankEnvironment place{.rank = num_gpus(), .world_size = num_gpus() + 1, .local_rank = num_gpus(), .local_size = num_gpus() + 1};
  const std::string error = test::error_of([&] { nccl_backend(place, {}, 1.0); });
  EXPECT_THAT(error, testing::AnyOf(testing::HasSubstr("every rank has a GPU of its own"), testing::HasSubstr("need a libtorch with CUDA")));
}

class OneGpu : public testing::TestWithParam<c10::DeviceType> {
 protected:
  void SetUp() override {
    if (num_gpus() == 0) GTEST_SKIP() << "SKIPPED: no GPU";
    launch::Rendezvous meeting;
    meeting.address = "localhost";
    meeting.port = 29561;
    backend_ = nccl_backend({}, meeting, 60.0);
    group_ = backend_->communicator({0}, "world");
  }
  at::TensorOptions options() const { return at::TensorOptions().device(GetParam()).dtype(at::kFloat); }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> group_;
};
INSTANTIATE_TEST_SUITE_P(Tensors, OneGpu, testing::Values(c10::kCPU, c10::kCUDA),
                         [](const auto& info) { return info.param == c10::kCPU ? "InHostMemory" : "OnTheGpu"; });

TEST_P(OneGpu, AGroupOfOneGivesBackWhatItGets) {
  const at::Tensor input = at::arange(5, options()), output = at::zeros({5}, options());
  group_->all_reduce(input).wait();
  group_->broadcast(input, 0).wait();
  EXPECT_TRUE(at::equal(input, at::arange(5, options())));
  const std::vector<std::function<Work()>> operations{[&] { return group_->reduce_scatter(input, Counts{5}, output, std::nullopt); },
                                                      [&] { return group_->all_gather(input, Counts{5}, output); },
                                                      [&] { return group_->all_to_all(input, Counts{5}, output, Counts{5}); }};
  for (const auto& operation : operations) {
    output.zero_();
    operation().wait();
    EXPECT_TRUE(at::equal(output, input));
  }
  group_->barrier();
}

TEST_P(OneGpu, WhatTravelsInAnotherTypeIsRounded) {
  const at::Tensor values = at::arange(300, options()), sum = at::zeros({300}, options());
  group_->reduce_scatter(values, Counts{300}, sum, at::kBFloat16).wait();
  EXPECT_TRUE(at::equal(sum, values.to(at::kBFloat16).to(at::kFloat)));
  group_->all_reduce(values, ReduceOperation::Max, at::kBFloat16).wait();
  EXPECT_TRUE(at::equal(values, sum));
}

}  // namespace
}  // namespace tessera::comm
