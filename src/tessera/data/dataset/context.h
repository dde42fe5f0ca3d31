#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tessera/core/json.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

/// Renders a conversation (an array of {"role", "content", …}) with the tokenizer's chat template, without a generation prompt.
/// Throws UserError when the template refuses the messages. May be called from many threads at once.
using ChatRenderer = std::function<std::string(const OrderedJson& messages)>;

/// What datasets need to know of the model they feed.
struct DatasetContext {
  std::optional<Tokenizer> tokenizer;  ///< build_dataset refuses to go without where text is to be read; mock data needs none
  ChatRenderer render_chat = nullptr;  ///< empty when the tokenizer has no chat template
  std::int64_t context_length = 0;     ///< positions the model has; 0: any number
  std::int64_t vocab_size = 0;         ///< rows of the model's embedding; 0: unknown, not checked
  int num_threads = 1;                 ///< for work done before training starts
};

}  // namespace tessera::data
