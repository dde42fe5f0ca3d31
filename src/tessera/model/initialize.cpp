#include "tessera/model/initialize.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/random.h"
#include "tessera/ops/cpu/parallel.h"

namespace tessera::model {
namespace {

constexpr std::uint64_t kBlock = 4;                            // normals per Philox call
constexpr std::int64_t kTaskElements = std::int64_t{1} << 18;  // values computed and stored by one task

/// Two normals of two words; the first word is kept away from zero by half a unit.
void box_muller(std::uint32_t radius_word, std::uint32_t angle_word, float& first, float& second) {
  const float uniform = (static_cast<float>(radius_word >> 8) + 0.5F) * 0x1.0p-24F;
  const float radius = std::sqrt(-2.0F * std::log(uniform));
  const float angle = static_cast<float>(angle_word >> 8) * (2.0F * std::numbers::pi_v<float> * 0x1.0p-24F);
  first = radius * std::cos(angle);
  second = radius * std::sin(angle);
}

std::array<float, kBlock> normal_block(std::uint64_t key, std::uint64_t block) {
  const auto words = philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0},
                                {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
  std::array<float, kBlock> values{};
  box_muller(words[0], words[1], values[0], values[1]);
  box_muller(words[2], words[3], values[2], values[3]);
  return values;
}

void fill_normal(std::uint64_t key, std::uint64_t first, float scale, std::span<float> out) {
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t element = first + done;
    const auto block = normal_block(key, element / kBlock);
    for (std::uint64_t within = element % kBlock; within < kBlock && done < out.size(); ++within) out[done++] = scale * block[within];
  }
}

std::uint64_t tensor_key(std::uint64_t seed, const std::string& tensor) { return CounterRandom(seed, "init", tensor).key(); }

/// Some rows of one piece.
struct RandomTask {
  const ParameterSpec* parameter;
  Piece piece;
  at::Tensor rows;         // [num_rows, …] in the checkpoint's orientation: a view of the weights
  std::int64_t first_row;  // in the checkpoint tensor
};

std::vector<RandomTask> random_tasks(const ParameterStore& store) {
  std::vector<RandomTask> tasks;
  for (const PlacedPiece& placed : store.held_pieces()) {
    const ParameterSpec& parameter = store.table().parameters[placed.parameter];
    if (parameter.initialization != Initialization::Normal) continue;
    const at::Tensor view = held_view(store, placed);
    const std::int64_t rows_per_task = std::max<std::int64_t>(1, kTaskElements * view.size(0) / view.numel());
    for (std::int64_t row = 0; row < view.size(0); row += rows_per_task)
      tasks.push_back({&parameter, placed.piece, view.narrow(0, row, std::min(rows_per_task, view.size(0) - row)), placed.piece.offset[0] + row});
  }
  return tasks;
}

void run(const RandomTask& task, std::uint64_t seed) {
  const std::uint64_t key = tensor_key(seed, task.piece.tensor);
  const auto scale = static_cast<float>(task.parameter->standard_deviation);
  const std::vector<std::int64_t>& shape = task.piece.tensor_shape;
  std::int64_t begin = task.first_row;  // of the box, among the tensor's elements
  for (std::size_t dim = 1; dim < shape.size(); ++dim) begin = begin * shape[dim] + task.piece.offset[dim];
  at::Tensor values = at::empty(task.rows.sizes(), at::TensorOptions().dtype(at::kFloat));
  const std::int64_t columns = values.size(-1);
  // All rows of a box are a row of the tensor apart: one of three dims has a single entry in the first.
  for (std::int64_t row = 0; row < values.numel() / columns; ++row) {
    const auto first = static_cast<std::uint64_t>(begin + row * shape.back());
    fill_normal(key, first, scale, {values.data_ptr<float>() + row * columns, static_cast<std::size_t>(columns)});
  }
  at::Tensor(task.rows).copy_(values);
}

void fill_constants(const ParameterStore& store) {
  for (const PlacedPiece& placed : store.held_pieces()) {
    const Initialization initialization = store.table().parameters[placed.parameter].initialization;
    if (initialization != Initialization::Normal) held_view(store, placed).fill_(initialization == Initialization::Ones ? 1.0 : 0.0);
  }
}

}  // namespace

void initialize_weights(ParameterStore& store, std::uint64_t seed) {
  fill_constants(store);
  const std::vector<RandomTask> tasks = random_tasks(store);
  const auto count = static_cast<std::int64_t>(tasks.size());
  ops::cpu::parallel_tasks(count, ops::cpu::parallel_workers(count),
                           [&](std::int64_t task, int) { run(tasks[static_cast<std::size_t>(task)], seed); });
  store.refresh_compute();
}

}  // namespace tessera::model
