#pragma once

#include <string>

#include "support/support.h"
#include "tessera/data/batch.h"
#include "tessera/data/dataset/context.h"
#include "tessera/data/tokenizer/definition.h"
#include "tessera/data/tokenizer/tokenizer_json.h"

namespace tessera::data::test {
using namespace tessera::test;

using namespace tessera::test;

/// The ChatML template of tests/data/data/tokenizer.
inline constexpr const char* kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}";

inline ChatTemplate chatml(const std::string& before = "") { return {before + kChatMl, "chatml"}; }

/// One of the byte-level tokenizers of tests/data/data.
inline Tokenizer small_tokenizer(const std::string& name) {
  TokenizerDefinition definition = parse_tokenizer_json(read_file(test_data("data/" + name + "/tokenizer.json")), name);
  definition.special_tokens = {.bos = 0, .eos = 1, .pad = 1, .unk = std::nullopt};
  return Tokenizer(std::move(definition));
}

/// A tokenizer that adds nothing of its own accord; <|end|> ends a text.
inline DatasetContext small_context() { return {.tokenizer = small_tokenizer("tokenizer"), .num_threads = 2}; }

inline std::string text_of(const DatasetContext& context, const std::vector<std::int64_t>& ids) {
  return context.tokenizer->decode(std::vector<TokenId>(ids.begin(), ids.end()), false);
}

/// The text of the labels that count.
inline std::string learnt_text(const DatasetContext& context, const Sample& sample) {
  std::vector<std::int64_t> learnt;
  for (const std::int64_t label : sample.labels) {
    if (label != kIgnoredLabel) learnt.push_back(label);
  }
  return text_of(context, learnt);
}

}  // namespace tessera::data::test
