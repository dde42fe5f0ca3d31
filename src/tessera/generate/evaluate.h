#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/model/causal_lm.h"
#include "tessera/parallel/causal_lm.h"

namespace tessera::generate {

struct Evaluation {
  double sum = 0.0;             ///< of negative log-likelihoods, natural logarithm
  std::int64_t num_tokens = 0;  ///< tokens that were predicted
  std::int64_t num_documents = 0;
  double seconds = 0.0;

  double mean() const { return num_tokens > 0 ? sum / static_cast<double>(num_tokens) : 0.0; }
  double perplexity() const;
};

/// What a model makes of windows of tokens: the sum of the negative log-likelihoods of all tokens but each window's first.
struct WindowLoss {
  std::function<double(std::span<const std::span<const data::TokenId>> windows)> run;  ///< of several ranks: this one's share
  std::int64_t num_at_once = 1;                       ///< windows that `run` should be given at once, if there are that many
  std::function<double(double sum)> over_ranks = {};  ///< the sum of all ranks' shares; absent: there is one
};
WindowLoss window_loss(const model::CausalLM& model);
/// Data-parallel ranks take windows in turn. All ranks make the same calls. Both: the model must outlive it.
WindowLoss window_loss(const parallel::CausalLM& model);

/// Told how many tokens are done, of how many.
using EvaluationProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// One window of `sequence_length` positions after another; every token but the first is predicted once, from the earlier ones of its window.
Evaluation evaluate_windows(const WindowLoss& loss, std::span<const data::TokenId> ids, std::int64_t sequence_length,
                            const EvaluationProgress& progress);
/// One document at a time, each from its own start; every token but a document's first is predicted. Documents longer than `sequence_length` are cut
/// into windows as above.
Evaluation evaluate_documents(const WindowLoss& loss, const std::vector<std::vector<data::TokenId>>& documents, std::int64_t sequence_length,
                              const EvaluationProgress& progress);
/// The documents of a text: split at `separator`, white space stripped on the left, empty ones dropped.
std::vector<std::string> split_documents(std::string_view text, std::string_view separator);

}  // namespace tessera::generate
