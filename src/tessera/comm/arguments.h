#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tessera/comm/communicator.h"

/// What every communicator demands of its arguments, checked the same way by all. Each throws Failure that names the operation.
namespace tessera::comm {

void check_all_reduce(const Communicator& communicator, const at::Tensor& tensor, std::optional<at::ScalarType> wire);
void check_reduce_scatter(const Communicator& communicator, const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output,
                          std::optional<at::ScalarType> wire);
void check_all_gather(const Communicator& communicator, const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output);
void check_broadcast(const Communicator& communicator, const at::Tensor& tensor, int root);
void check_all_to_all(const Communicator& communicator, const at::Tensor& input, std::span<const std::int64_t> input_counts, const at::Tensor& output,
                      std::span<const std::int64_t> output_counts);
/// `peer` is another rank of the group.
void check_message(const Communicator& communicator, const at::Tensor& tensor, int peer);

}  // namespace tessera::comm
