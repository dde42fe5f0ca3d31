#pragma once

#include <cstdint>
#include <optional>

#include "tessera/core/environment.h"
#include "tessera/data/template/chat.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

/// What datasets need to know of the model they feed.
struct DatasetContext {
  std::optional<Tokenizer> tokenizer;                        ///< build_dataset refuses to go without where text is to be read; mock data needs none
  std::optional<ChatTemplate> chat_template = std::nullopt;  ///< the tokenizer's, or the recipe's
  std::int64_t context_length = 0;                           ///< positions the model has; 0: any number
  std::int64_t vocab_size = 0;                               ///< rows of the model's embedding; 0: unknown, not checked
  int num_threads = 1;                                       ///< for work done before training starts
  Environment environment = nullptr;                         ///< where the hub and its cache are; null: the process's own
  bool validation = false;                                   ///< the split of Megatron files, when the recipe names none
  std::optional<std::int64_t> num_samples = std::nullopt;    ///< what the run will draw, when its steps are counted: sizes Megatron's blends
};

}  // namespace tessera::data
