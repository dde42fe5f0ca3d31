// Every operation of a communicator against a serial computation from all ranks' inputs, bit for bit.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <cmath>
#include <numeric>

#include "distributed/ranks.h"
#include "support/support.h"
#include "tessera/comm/values.h"
#include "tessera/core/error.h"

namespace tessera::comm {
namespace {

using Counts = std::vector<std::int64_t>;

/// What rank `rank` puts into an operation: any rank can compute any rank's, quickly.
at::Tensor input_of(int rank, std::int64_t count, at::ScalarType type, std::uint64_t salt = 0) {
  const at::Tensor values = at::empty({count}, at::kDouble);
  double* data = values.data_ptr<double>();
  const bool floating = at::isFloatingType(type) && at::elementSize(type) > 1;
  std::uint64_t state = static_cast<std::uint64_t>(rank) + 1000 * salt + 1;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's linear congruential generator
    const double uniform = static_cast<double>(state >> 11) * 0x1p-53;
    data[i] = floating ? 4.0 * uniform - 2.0 : std::floor(200.0 * uniform);
  }
  return values.to(type);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.numel() == b.numel() && (a.numel() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

at::ScalarType accumulator(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf ? at::kFloat : type; }

/// Sum of what each rank contributes, one after another, by libtorch.
at::Tensor serial_sum(const std::vector<at::Tensor>& parts, at::ScalarType result) {
  at::Tensor sum = parts[0].to(accumulator(parts[0].scalar_type()), false, true);
  for (std::size_t i = 1; i < parts.size(); ++i) sum.add_(parts[i].to(sum.scalar_type()));
  return sum.to(result);
}

/// Uneven, with zeros among them when there are three ranks or more; `total` together.
Counts uneven_counts(std::int64_t total, int size) {
  Counts counts(static_cast<std::size_t>(size), 0);
  for (int rank = 0; rank < size; ++rank) counts[static_cast<std::size_t>(rank)] = rank == 1 && size > 2 ? 0 : total / size;
  counts[0] += total - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return counts;
}

at::Tensor part_of(const at::Tensor& tensor, const Counts& counts, int rank) {
  return tensor.narrow(0, std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0}), counts[static_cast<std::size_t>(rank)]);
}

constexpr std::array<std::int64_t, 8> kSizes{0, 1, 3, 17, 1000, 4097, 65537, 300001};
constexpr std::array kTypes{at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kInt, at::kLong, at::kByte};
constexpr std::array kAllTypes{at::kFloat, at::kBFloat16, at::kHalf,          at::kDouble,     at::kInt,
                               at::kLong,  at::kByte,     at::kFloat8_e4m3fn, at::kFloat8_e5m2};

std::vector<at::Tensor> inputs_of_all(int size, std::int64_t count, at::ScalarType type) {
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < size; ++rank) inputs.push_back(input_of(rank, count, type));
  return inputs;
}

TEST(Comm, AllReduceSumsInRankOrder) {
  const auto world = test::world_communicator();
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t count : kSizes) {
      const at::Tensor tensor = input_of(world->rank(), count, type);
      world->all_reduce(tensor).wait();
      EXPECT_TRUE(same_bits(tensor, serial_sum(inputs_of_all(world->size(), count, type), type))) << c10::toString(type) << " " << count;
    }
  }
}

TEST(Comm, AllReduceRoundsToTheWire) {
  const auto world = test::world_communicator();
  if (world->size() == 1) return;
  for (const std::int64_t count : kSizes) {
    const at::Tensor tensor = input_of(world->rank(), count, at::kFloat);
    world->all_reduce(tensor, ReduceOperation::Sum, at::kBFloat16).wait();
    std::vector<at::Tensor> inputs = inputs_of_all(world->size(), count, at::kFloat);
    for (at::Tensor& input : inputs) input = input.to(at::kBFloat16);
    EXPECT_TRUE(same_bits(tensor, serial_sum(inputs, at::kBFloat16).to(at::kFloat))) << count;
  }
}

TEST(Comm, AllReduceFindsMaximumAndMinimum) {
  const auto world = test::world_communicator();
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t count : {std::int64_t{5}, std::int64_t{9001}}) {
      for (const ReduceOperation operation : {ReduceOperation::Max, ReduceOperation::Min}) {
        const at::Tensor tensor = input_of(world->rank(), count, type);
        world->all_reduce(tensor, operation).wait();
        at::Tensor expected = input_of(0, count, type);
        for (int rank = 1; rank < world->size(); ++rank) {
          const at::Tensor other = input_of(rank, count, type);
          expected = operation == ReduceOperation::Max ? at::maximum(expected, other) : at::minimum(expected, other);
        }
        EXPECT_TRUE(same_bits(tensor, expected)) << c10::toString(type) << " " << count;
      }
    }
  }
}

TEST(Comm, ReduceScatterSumsInRankOrder) {
  const auto world = test::world_communicator();
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t count : kSizes) {
      const Counts counts = uneven_counts(count, world->size());
      const at::Tensor input = input_of(world->rank(), count, type);
      const at::Tensor output = part_of(at::empty_like(input), counts, world->rank());
      world->reduce_scatter(input, counts, output).wait();
      const at::Tensor sum = serial_sum(inputs_of_all(world->size(), count, type), type);
      EXPECT_TRUE(same_bits(output, part_of(sum, counts, world->rank()))) << c10::toString(type) << " " << count;
    }
  }
}

TEST(Comm, ReduceScatterOverANarrowerWireKeepsTheOwnPartAndTheSumWide) {
  const auto world = test::world_communicator();
  for (const std::int64_t count : kSizes) {
    const Counts counts = uneven_counts(count, world->size());
    const at::Tensor input = input_of(world->rank(), count, at::kFloat);
    const at::Tensor output = part_of(input, counts, world->rank());  // in place
    std::vector<at::Tensor> inputs = inputs_of_all(world->size(), count, at::kFloat);
    for (int rank = 0; rank < world->size(); ++rank)
      if (rank != world->rank()) inputs[static_cast<std::size_t>(rank)] = inputs[static_cast<std::size_t>(rank)].to(at::kBFloat16).to(at::kFloat);
    world->reduce_scatter(input, counts, output, at::kBFloat16).wait();
    EXPECT_TRUE(same_bits(output, part_of(serial_sum(inputs, at::kFloat), counts, world->rank()))) << count;
  }
}

TEST(Comm, ReduceScatterOfBfloat16IntoFloat) {
  const auto world = test::world_communicator();
  const Counts counts = uneven_counts(5003, world->size());
  const at::Tensor input = input_of(world->rank(), 5003, at::kBFloat16);
  const at::Tensor output = at::empty({counts[static_cast<std::size_t>(world->rank())]}, at::kFloat);
  world->reduce_scatter(input, counts, output).wait();
  EXPECT_TRUE(same_bits(output, part_of(serial_sum(inputs_of_all(world->size(), 5003, at::kBFloat16), at::kFloat), counts, world->rank())));
}

TEST(Comm, AllGatherJoinsTheParts) {
  const auto world = test::world_communicator();
  for (const at::ScalarType type : kAllTypes) {
    for (const std::int64_t count : kSizes) {
      const Counts counts = uneven_counts(count, world->size());
      std::vector<at::Tensor> parts;
      for (int rank = 0; rank < world->size(); ++rank) parts.push_back(input_of(rank, counts[static_cast<std::size_t>(rank)], type).view(at::kByte));
      const at::Tensor output = at::empty({count}, type);
      world->all_gather(input_of(world->rank(), counts[static_cast<std::size_t>(world->rank())], type), counts, output).wait();
      EXPECT_TRUE(same_bits(output.view(at::kByte), at::cat(parts))) << c10::toString(type) << " " << count;
    }
  }
}

TEST(Comm, AllGatherInPlace) {
  const auto world = test::world_communicator();
  const Counts counts = uneven_counts(70000, world->size());
  const at::Tensor expected = input_of(7, 70000, at::kFloat);
  const at::Tensor output = at::full({70000}, -1.0F, at::kFloat);
  part_of(output, counts, world->rank()).copy_(part_of(expected, counts, world->rank()));
  world->all_gather(part_of(output, counts, world->rank()), counts, output).wait();
  EXPECT_TRUE(same_bits(output, expected));
}

TEST(Comm, BroadcastFromEveryRoot) {
  const auto world = test::world_communicator();
  for (int root = 0; root < world->size(); ++root) {
    for (const std::int64_t count : kSizes) {
      const at::Tensor tensor = input_of(world->rank(), count, at::kFloat);
      world->broadcast(tensor, root).wait();
      EXPECT_TRUE(same_bits(tensor, input_of(root, count, at::kFloat))) << root << " " << count;
    }
  }
}

/// What rank `from` sends to rank `to`: uneven, often nothing.
std::int64_t num_between(int from, int to, std::int64_t scale) { return (from * 3 + to * 5) % 4 * scale; }

TEST(Comm, AllToAllWithUnevenCounts) {
  const auto world = test::world_communicator();
  for (const at::ScalarType type : kAllTypes) {
    for (const std::int64_t scale : {0, 1, 1111, 30001}) {
      Counts input_counts, output_counts;
      std::vector<at::Tensor> sent{at::empty({0}, type).view(at::kByte)};
      std::vector<at::Tensor> expected = sent;
      for (int peer = 0; peer < world->size(); ++peer) {
        input_counts.push_back(num_between(world->rank(), peer, scale));
        output_counts.push_back(num_between(peer, world->rank(), scale));
        sent.push_back(input_of(world->rank(), input_counts.back(), type, static_cast<std::uint64_t>(peer)).view(at::kByte));
        expected.push_back(input_of(peer, output_counts.back(), type, static_cast<std::uint64_t>(world->rank())).view(at::kByte));
      }
      const at::Tensor output = at::empty({std::accumulate(output_counts.begin(), output_counts.end(), std::int64_t{0})}, type);
      world->all_to_all(at::cat(sent).view(type), input_counts, output, output_counts).wait();
      EXPECT_TRUE(same_bits(output.view(at::kByte), at::cat(expected))) << c10::toString(type) << " " << scale;
    }
  }
}

RANKS_TEST(Comm, MessagesKeepTheirOrder, 2, 3, 4, 8) {
  const auto world = test::world_communicator();
  const int next = (world->rank() + 1) % world->size();
  const int previous = (world->rank() + world->size() - 1) % world->size();
  std::vector<Work> works;
  std::vector<at::Tensor> received;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    received.push_back(at::empty({kSizes[i]}, at::kFloat));
    works.push_back(world->receive(received.back(), previous));
    works.push_back(world->send(input_of(world->rank(), kSizes[i], at::kFloat, i), next));
  }
  for (Work& work : works) work.wait();
  for (std::size_t i = 0; i < kSizes.size(); ++i) EXPECT_TRUE(same_bits(received[i], input_of(previous, kSizes[i], at::kFloat, i))) << i;
}

TEST(Comm, BarrierWaitsForEveryRank) {
  // The ranks of a host have one steady clock.
  const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  const auto world = test::world_communicator();
  if (world->rank() == world->size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const at::Tensor last_arrival = at::full({1}, now(), at::kLong);
  world->barrier();
  const std::int64_t left = now();
  world->all_reduce(last_arrival, ReduceOperation::Max).wait();
  EXPECT_GE(left, last_arrival.item<std::int64_t>());
}

TEST(Comm, ManyOperationsUnderWayAtOnce) {
  const auto world = test::world_communicator();
  constexpr int kOperations = 100;
  std::vector<at::Tensor> tensors;
  std::vector<Work> works;
  for (int i = 0; i < kOperations; ++i) {
    tensors.push_back(input_of(world->rank() + i, 500 * i, at::kFloat));
    works.push_back(world->all_reduce(tensors.back()));
  }
  for (int i = kOperations - 1; i >= 0; --i) works[static_cast<std::size_t>(i)].wait();
  for (int i = 0; i < kOperations; ++i) {
    std::vector<at::Tensor> inputs;
    for (int rank = 0; rank < world->size(); ++rank) inputs.push_back(input_of(rank + i, 500 * i, at::kFloat));
    EXPECT_TRUE(same_bits(tensors[static_cast<std::size_t>(i)], serial_sum(inputs, at::kFloat))) << i;
  }
}

RANKS_TEST(Comm, GroupsDoNotWaitForEachOther, 4, 8) {
  // A grid of two columns. Half of the ranks issue the row's operation first, the others the column's.
  const auto rank = test::backend().rank();
  std::vector<std::int64_t> row{rank / 2 * 2, rank / 2 * 2 + 1}, column;
  for (std::int64_t other = rank % 2; other < test::backend().world_size(); other += 2) column.push_back(other);
  const auto rows = test::backend().communicator(row, "row");
  const auto columns = test::backend().communicator(column, "column");
  for (const std::int64_t count : {std::int64_t{3}, std::int64_t{200000}}) {
    const at::Tensor in_row = input_of(static_cast<int>(rank), count, at::kFloat);
    const at::Tensor in_column = input_of(static_cast<int>(rank), count, at::kFloat, 1);
    if (rank % 3 == 0) {
      Work first = rows->all_reduce(in_row);
      columns->all_reduce(in_column).wait();
      first.wait();
    } else {
      Work first = columns->all_reduce(in_column);
      rows->all_reduce(in_row).wait();
      first.wait();
    }
    std::vector<at::Tensor> row_inputs, column_inputs;
    for (const std::int64_t member : row) row_inputs.push_back(input_of(static_cast<int>(member), count, at::kFloat));
    for (const std::int64_t member : column) column_inputs.push_back(input_of(static_cast<int>(member), count, at::kFloat, 1));
    EXPECT_TRUE(same_bits(in_row, serial_sum(row_inputs, at::kFloat)));
    EXPECT_TRUE(same_bits(in_column, serial_sum(column_inputs, at::kFloat)));
  }
}

RANKS_TEST(Comm, GroupsInAnotherOrderOfRanks, 3, 4) {
  std::vector<std::int64_t> members;
  for (std::int64_t rank = test::backend().world_size() - 1; rank >= 0; --rank) members.push_back(rank);
  const auto reversed = test::backend().communicator(members, "reversed");
  EXPECT_EQ(reversed->rank(), reversed->size() - 1 - test::backend().rank());
  const Counts counts(static_cast<std::size_t>(reversed->size()), 2);
  const at::Tensor output = at::empty({2 * reversed->size()}, at::kFloat);
  reversed->all_gather(input_of(reversed->rank(), 2, at::kFloat), counts, output).wait();
  for (int rank = 0; rank < reversed->size(); ++rank) EXPECT_TRUE(same_bits(part_of(output, counts, rank), input_of(rank, 2, at::kFloat)));
}

TEST(Comm, NobodyGoesOnWhereOneFailed) {
  const auto world = test::world_communicator();
  const int last = world->size() - 1;
  const std::string error = test::error_of([&] {
    together(*world, [&] {
      if (world->rank() == last) throw UserError({"recipe.yaml:3", "it is wrong", "", "mend it"});
    });
    ADD_FAILURE() << "went on";
  });
  const std::string origin = world->rank() == last ? "" : "rank " + std::to_string(last) + ": ";
  EXPECT_EQ(error, "error: " + origin + "recipe.yaml:3: it is wrong\n  fix:  mend it");
}

}  // namespace
}  // namespace tessera::comm
