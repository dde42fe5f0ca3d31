#include "tessera/data/dataset/checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/data/vocabulary.h"

namespace tessera::data {

void check_sample_fits(const Sample& sample, const DatasetContext& context, const std::string& where) {
  const auto length = static_cast<std::int64_t>(sample.input_ids.size());
  if (context.context_length > 0 && std::max(length, sample.padded_length) > context.context_length) {
    throw UserError({where,
                     fmt::format("the sample takes {} positions, the model has {}", std::max(length, sample.padded_length), context.context_length),
                     "a sample fits into the model's context (max_position_embeddings)",
                     "set seq_length to at most that and truncation: true, or shorten the sample"});
  }
  if (context.vocab_size == 0) return;
  check_vocabulary(sample.input_ids, context.vocab_size, where);
  // The last target is not among the inputs.
  if (sample.labels.back() != kIgnoredLabel) check_vocabulary(std::span(sample.labels).last(1), context.vocab_size, where);
}

}  // namespace tessera::data
