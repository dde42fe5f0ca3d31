#include "tessera/generate/evaluate.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "tessera/comm/values.h"
#include "tessera/core/clock.h"
#include "tessera/core/labels.h"
#include "tessera/data/batch.h"
#include "tessera/loss/cross_entropy.h"

namespace tessera::generate {
namespace {

using Window = std::span<const data::TokenId>;

/// One row that predicts ids[1…], each given the earlier ones.
struct Row {
  model::Inputs inputs;
  at::Tensor labels_BT;
};

Row row_of(const Window& ids) {
  const std::vector<std::int64_t> wide(ids.begin(), ids.end());
  const at::Tensor all = at::tensor(wide, at::kLong).view({1, -1});
  const std::int64_t length = all.size(1) - 1;
  return {{all.narrow(1, 0, length).contiguous(), at::arange(length, at::kLong).view({1, length}), {length}, {0}, {}},
          all.narrow(1, 1, length).contiguous()};
}

double loss_of(const model::Decoder& decoder, const model::Inputs& inputs, const at::Tensor& labels_BT) {
  ops::Tape tape(ops::Tape::Mode::Inference);
  return loss::causal_language_model(tape, decoder, inputs, labels_BT, 0.0).sum;
}

/// What data-parallel ranks run that have no window left: one token, nothing to predict.
Row nothing() {
  const at::Tensor zero = at::zeros({1, 1}, at::kLong);
  return {{zero, zero, {1}, {0}, {}}, at::full({1, 1}, kIgnoredLabel, at::kLong)};
}

/// Every num_ranks-th window, beginning with the rank's own; as many for each rank.
std::vector<parallel::ContextShare> own_rows(const parallel::CausalLM& model, std::span<const Window> windows) {
  const auto num_ranks = static_cast<std::size_t>(model.mesh->dp_size()), rank = static_cast<std::size_t>(model.mesh->dp_rank());
  std::vector<parallel::ContextShare> rows;
  for (std::size_t first = 0; first < windows.size(); first += num_ranks) {
    const Row row = first + rank < windows.size() ? row_of(windows[first + rank]) : nothing();
    rows.push_back(model.share_of(row.inputs, row.labels_BT));
  }
  return rows;
}

double loss_over_ranks(const parallel::CausalLM& model, std::span<const Window> windows) {
  const std::vector<parallel::ContextShare> rows = own_rows(model, windows);
  if (model.pipeline) return model.pipeline->evaluate(rows).sum;
  double sum = 0.0;
  for (const parallel::ContextShare& row : rows) sum += loss_of(*model.model.decoder, row.inputs, row.labels_BT);
  return sum;
}

/// The windows of a token sequence.
void append_windows(Window ids, std::int64_t sequence_length, std::vector<Window>& windows) {
  const auto length = static_cast<std::size_t>(sequence_length);
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += length)
    windows.push_back(ids.subspan(begin, std::min(length + 1, ids.size() - begin)));
}

Evaluation evaluate(const WindowLoss& loss, const std::vector<Window>& windows, std::int64_t num_documents, const EvaluationProgress& progress) {
  const Clock::time_point start = Clock::now();
  Evaluation result{.num_documents = num_documents};
  std::int64_t total = 0;
  for (const Window& window : windows) total += std::ssize(window) - 1;
  const auto at_once = static_cast<std::size_t>(loss.num_at_once);
  for (std::size_t begin = 0; begin < windows.size(); begin += at_once) {
    const std::span<const Window> some = std::span(windows).subspan(begin, std::min(at_once, windows.size() - begin));
    result.sum += loss.run(some);
    for (const Window& window : some) result.num_tokens += std::ssize(window) - 1;
    if (progress) progress(result.num_tokens, total);
  }
  if (loss.over_ranks) result.sum = loss.over_ranks(result.sum);
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(mean()); }

WindowLoss window_loss(const model::CausalLM& model) {
  return {.run = [&model](std::span<const Window> windows) {
    double sum = 0.0;
    for (const Window& window : windows) {
      const Row row = row_of(window);
      sum += loss_of(*model.decoder, row.inputs, row.labels_BT);
    }
    return sum;
  }};
}

WindowLoss window_loss(const parallel::CausalLM& model) {
  return {
      .run = [&model](std::span<const Window> windows) { return loss_over_ranks(model, windows); },
      .num_at_once = model.mesh->dp_size() * (model.pipeline ? model.pipeline->plan().num_microbatches : 1),  // a pipeline is filled
      .over_ranks = [&model](double sum) { return comm::sum(model.group(mesh::kDpCp | mesh::Axis::PipelineParallel), std::vector{sum}).front(); }};
}

Evaluation evaluate_windows(const WindowLoss& loss, std::span<const data::TokenId> ids, std::int64_t sequence_length,
                            const EvaluationProgress& progress) {
  std::vector<Window> windows;
  append_windows(ids, sequence_length, windows);
  return evaluate(loss, windows, 1, progress);
}

Evaluation evaluate_documents(const WindowLoss& loss, const std::vector<std::vector<data::TokenId>>& documents, std::int64_t sequence_length,
                              const EvaluationProgress& progress) {
  std::vector<Window> windows;
  for (const std::vector<data::TokenId>& document : documents) append_windows(document, sequence_length, windows);
  return evaluate(loss, windows, std::ssize(documents), progress);
}

std::vector<std::string> split_documents(std::string_view text, std::string_view separator) {
  std::vector<std::string> documents;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    std::string_view document = text.substr(begin, end - begin);
    document.remove_prefix(std::min(document.find_first_not_of(" \t\r\n\f\v"), document.size()));
    if (!document.empty()) documents.emplace_back(document);
    begin = end + separator.size();
  }
  return documents;
}

}  // namespace tessera::generate
