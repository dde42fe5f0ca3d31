#include "tessera/generate/evaluate.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tessera/loss/cross_entropy.h"

namespace tessera::generate {
namespace {

/// Negative log-likelihood of ids[1…], each given the earlier ones: one row.
double row_loss(const model::CausalLM& model, std::span<const data::TokenId> ids) {
  const std::vector<std::int64_t> wide(ids.begin(), ids.end());
  const at::Tensor all = at::tensor(wide, at::kLong).view({1, -1});
  const std::int64_t length = all.size(1) - 1;
  const model::Inputs inputs{all.narrow(1, 0, length).contiguous(), at::arange(length, at::kLong).view({1, length}), {length}, {0}, {}};
  ops::Tape tape(ops::Tape::Mode::Inference);
  return loss::causal_language_model(tape, *model.decoder, inputs, all.narrow(1, 1, length), 0.0).sum;
}

/// Adds the windows of one token sequence.
void add_windows(const model::CausalLM& model, std::span<const data::TokenId> ids, std::int64_t sequence_length, std::int64_t total,
                 const EvaluationProgress& progress, Evaluation& result) {
  const auto window = static_cast<std::size_t>(sequence_length);
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += window) {
    const std::span<const data::TokenId> part = ids.subspan(begin, std::min(window + 1, ids.size() - begin));
    result.sum += row_loss(model, part);
    result.num_tokens += static_cast<std::int64_t>(part.size()) - 1;
    if (progress) progress(result.num_tokens, total);
  }
}

template <class Work>
Evaluation timed(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  Evaluation result;
  work(result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(mean()); }

Evaluation evaluate_windows(const model::CausalLM& model, std::span<const data::TokenId> ids, std::int64_t sequence_length,
                            const EvaluationProgress& progress) {
  return timed([&](Evaluation& result) {
    result.num_documents = 1;
    add_windows(model, ids, sequence_length, static_cast<std::int64_t>(ids.size()) - 1, progress, result);
  });
}

Evaluation evaluate_documents(const model::CausalLM& model, const std::vector<std::vector<data::TokenId>>& documents, std::int64_t sequence_length,
                              const EvaluationProgress& progress) {
  std::int64_t total = 0;
  for (const auto& document : documents) total += std::max<std::int64_t>(0, static_cast<std::int64_t>(document.size()) - 1);
  return timed([&](Evaluation& result) {
    for (const auto& document : documents) {
      add_windows(model, document, sequence_length, total, progress, result);
      ++result.num_documents;
    }
  });
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
