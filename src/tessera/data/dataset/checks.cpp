#include "tessera/data/dataset/checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"

namespace tessera::data {

void check_vocabulary(std::span<const std::int64_t> ids, const DatasetContext& context, const std::string& where) {
  if (context.vocab_size == 0 || ids.empty()) return;
  const auto [least, largest] = std::minmax_element(ids.begin(), ids.end());
  const std::int64_t wrong = *least < 0 ? *least : *largest;
  if (wrong >= 0 && wrong < context.vocab_size) return;
  throw UserError({where, fmt::format("token id {} is outside the model's vocabulary of {}", wrong, context.vocab_size),
                   "every token needs a row of the embedding", "use the tokenizer that belongs to the model"});
}

void check_sample_fits(const Sample& sample, const DatasetContext& context, const std::string& where) {
  const auto length = static_cast<std::int64_t>(sample.input_ids.size());
  if (context.context_length > 0 && std::max(length, sample.padded_length) > context.context_length) {
    throw UserError({where,
                     fmt::format("the sample takes {} positions, the model has {}", std::max(length, sample.padded_length), context.context_length),
                     "a sample fits into the model's context (max_position_embeddings)",
                     "set seq_length to at most that and truncation: true, or shorten the sample"});
  }
  check_vocabulary(sample.input_ids, context, where);
  // The last target is not among the inputs.
  if (sample.labels.back() != ignored_label) check_vocabulary(std::span(sample.labels).last(1), context, where);
}

}  // namespace tessera::data
