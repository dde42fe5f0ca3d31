#include "model/rows.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tessera/ops/linear_cross_entropy.h"

namespace tessera::model::test {

Row document(std::int64_t length, unsigned seed, std::int64_t number) {
  std::mt19937 generator(seed);
  Row row{.ids = {}, .labels = {}, .positions = {}, .starts = {0}, .number = number};
  for (std::int64_t position = 0; position < length; ++position) {
    row.ids.push_back(static_cast<std::int64_t>(generator() % 300));
    row.positions.push_back(position);
  }
  row.labels.assign(row.ids.begin() + 1, row.ids.end());
  row.labels.push_back(-100);
  return row;
}

Row pack(const std::vector<Row>& documents) {
  Row packed{.ids = {}, .labels = {}, .positions = {}, .starts = {}, .number = documents[0].number};
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (const Row& row : documents) {
    packed.starts.push_back(static_cast<std::int64_t>(packed.ids.size()));
    append(packed.ids, row.ids);
    append(packed.labels, row.labels);
    append(packed.positions, row.positions);
  }
  return packed;
}

Batch make_batch(const std::vector<Row>& rows, std::int64_t width, std::int64_t pad_id, bool packed) {
  for (const Row& row : rows) width = std::max(width, static_cast<std::int64_t>(row.ids.size()));
  const auto count = static_cast<std::int64_t>(rows.size());
  Batch batch{{at::full({count, width}, pad_id, at::kLong), at::full({count, width}, 0, at::kLong), {}, {}, {}},
              at::full({count, width}, -100, at::kLong)};
  for (std::int64_t index = 0; index < count; ++index) {
    const Row& row = rows[static_cast<std::size_t>(index)];
    const auto length = static_cast<std::int64_t>(row.ids.size());
    const auto put = [&](const at::Tensor& matrix, const std::vector<std::int64_t>& values) {
      matrix.select(0, index).narrow(0, 0, length).copy_(at::tensor(values, at::kLong));
    };
    put(batch.inputs.input_ids_BT, row.ids);
    put(batch.inputs.position_ids_BT, row.positions);
    put(batch.labels_BT, row.labels);
    batch.inputs.lengths.push_back(length);
    batch.inputs.sample_numbers.push_back(row.number);
    if (packed) batch.inputs.document_starts.push_back(row.starts);
  }
  return batch;
}

Pass run(CausalLM& model, const std::vector<Batch>& microbatches, std::uint64_t step, double scale) {
  Pass pass;
  model.store->start_gradients();
  for (const Batch& batch : microbatches) {
    ops::Tape tape;
    const ops::Variable hidden = model.decoder->hidden(tape, batch.inputs, step).states;
    pass.loss += model.decoder->loss(tape, hidden, batch.labels_BT.reshape({-1}), scale).sum;
    tape.backward();
  }
  model.store->finish_gradients();
  for (std::size_t index = 0; index < model.store->table().parameters.size(); ++index) {
    const at::Tensor& gradient = model.store->parameter(index).gradient;
    pass.gradients.push_back(gradient.defined() ? gradient.clone() : at::Tensor());
  }
  return pass;
}

bool same_bits(const Pass& a, const Pass& b) {
  if (a.loss != b.loss || a.gradients.size() != b.gradients.size()) return false;
  for (std::size_t index = 0; index < a.gradients.size(); ++index) {
    if (a.gradients[index].defined() != b.gradients[index].defined()) return false;
    if (a.gradients[index].defined() && !at::equal(a.gradients[index], b.gradients[index])) return false;
  }
  return true;
}

std::string difference(const CausalLM& model, const Pass& actual, const Pass& expected, double tolerance) {
  const double loss = std::abs(actual.loss - expected.loss) / std::abs(expected.loss);
  if (!(loss <= tolerance)) return fmt::format("loss {} instead of {}", actual.loss, expected.loss);
  for (std::size_t index = 0; index < actual.gradients.size(); ++index) {
    const at::Tensor& wanted = expected.gradients[index];
    // A key's bias moves all logits of a query alike: its gradient is nothing but rounding.
    const double largest = std::max(wanted.abs().max().item<double>(), 1e-3);
    const double error = (actual.gradients[index] - wanted).abs().max().item<double>() / largest;
    if (!(error <= tolerance)) return fmt::format("gradient of {} off by {}", model.store->table().parameters[index].name, error);
  }
  return "";
}

}  // namespace tessera::model::test
