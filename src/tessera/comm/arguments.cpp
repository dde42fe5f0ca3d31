#include "tessera/comm/arguments.h"

#include <fmt/format.h>

#include <numeric>

#include "tessera/comm/dtype.h"
#include "tessera/core/error.h"

namespace tessera::comm {
namespace {

void require(bool condition, const Communicator& communicator, const char* operation, const std::string& rule) {
  if (!condition) throw Failure({"", fmt::format("{} over {}: wrong arguments", operation, communicator.name()), rule, ""});
}

void check_tensor(const Communicator& communicator, const char* operation, const at::Tensor& tensor) {
  require(tensor.defined() && tensor.is_contiguous(), communicator, operation, "tensors are contiguous");
}

/// One count per rank, none negative, `total` together.
void check_counts(const Communicator& communicator, const char* operation, std::span<const std::int64_t> counts, std::int64_t total) {
  require(std::cmp_equal(counts.size(), communicator.size()), communicator, operation, fmt::format("{} counts, one per rank", communicator.size()));
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) {
    require(count >= 0, communicator, operation, "counts are not negative");
    sum += count;
  }
  require(sum == total, communicator, operation, fmt::format("the tensor has as many elements ({}) as the counts add up to ({})", total, sum));
}

void check_reducible(const Communicator& communicator, const char* operation, at::ScalarType type, at::ScalarType other) {
  const DType dtype = to_dtype(type);
  require(is_reducible(dtype), communicator, operation, "reduced are float32, bfloat16, float16, float64, int32, int64 and uint8");
  require(type == other || (is_floating(dtype) && is_floating(to_dtype(other))), communicator, operation,
          "only floating-point tensors travel or arrive in another type");
}

std::int64_t count_of(const Communicator& communicator, std::span<const std::int64_t> counts) {
  return counts[static_cast<std::size_t>(communicator.rank())];
}

}  // namespace

void check_all_reduce(const Communicator& communicator, const at::Tensor& tensor, std::optional<at::ScalarType> wire) {
  check_tensor(communicator, "all_reduce", tensor);
  check_reducible(communicator, "all_reduce", tensor.scalar_type(), wire.value_or(tensor.scalar_type()));
}

void check_reduce_scatter(const Communicator& communicator, const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output,
                          std::optional<at::ScalarType> wire) {
  constexpr const char* kName = "reduce_scatter";
  check_tensor(communicator, kName, input);
  check_tensor(communicator, kName, output);
  check_counts(communicator, kName, counts, input.numel());
  require(output.numel() == count_of(communicator, counts), communicator, kName, "the output has this rank's count of elements");
  check_reducible(communicator, kName, input.scalar_type(), output.scalar_type());
  check_reducible(communicator, kName, input.scalar_type(), wire.value_or(input.scalar_type()));
}

void check_all_gather(const Communicator& communicator, const at::Tensor& input, std::span<const std::int64_t> counts, const at::Tensor& output) {
  constexpr const char* kName = "all_gather";
  check_tensor(communicator, kName, input);
  check_tensor(communicator, kName, output);
  check_counts(communicator, kName, counts, output.numel());
  require(input.numel() == count_of(communicator, counts), communicator, kName, "the input has this rank's count of elements");
  require(input.scalar_type() == output.scalar_type(), communicator, kName, "input and output have one type");
}

void check_broadcast(const Communicator& communicator, const at::Tensor& tensor, int root) {
  check_tensor(communicator, "broadcast", tensor);
  require(root >= 0 && root < communicator.size(), communicator, "broadcast", "the root is a rank of the group");
}

void check_all_to_all(const Communicator& communicator, const at::Tensor& input, std::span<const std::int64_t> input_counts, const at::Tensor& output,
                      std::span<const std::int64_t> output_counts) {
  constexpr const char* kName = "all_to_all";
  check_tensor(communicator, kName, input);
  check_tensor(communicator, kName, output);
  check_counts(communicator, kName, input_counts, input.numel());
  check_counts(communicator, kName, output_counts, output.numel());
  require(count_of(communicator, input_counts) == count_of(communicator, output_counts), communicator, kName,
          "a rank receives what it sends to itself");
  require(input.scalar_type() == output.scalar_type(), communicator, kName, "input and output have one type");
}

void check_message(const Communicator& communicator, const at::Tensor& tensor, int peer) {
  check_tensor(communicator, "message", tensor);
  require(peer >= 0 && peer < communicator.size() && peer != communicator.rank(), communicator, "message", "the peer is another rank of the group");
}

}  // namespace tessera::comm
