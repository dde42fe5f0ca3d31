#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tessera/core/json.h"
#include "tessera/data/batch.h"
#include "tessera/data/dataset/context.h"

namespace tessera::data {

/// What a chat template may add to the texts.
inline constexpr std::int64_t kTemplateTokens = 256;

/// How a prompt and its answer become tokens: the options that AutoModel's instruction datasets share.
struct InstructionOptions {
  std::int64_t seq_length = 0;        ///< 0: none. Tokens, before the shift that makes labels of them
  bool truncate = false;              ///< cut to seq_length (the context length when there is none)
  bool pad_to_seq_length = false;     ///< padding: max_length
  bool answer_only_loss_mask = true;  ///< train on the answer only, not on the prompt
  bool mask_history = false;          ///< of a conversation, train on the last turn of the assistant only
  bool mask_reasoning = false;        ///< do not train on what comes from a message's `reasoning_content`
};

struct InstructionSample : Sample {
  std::int64_t num_cut = 0;  ///< tokens that truncation took
};

/// AutoModel's format_prompt_completion: `prompt + answer` is one text, encoded with the tokenizer's own special tokens; when only the answer is
/// trained on, as many tokens are masked as the prompt alone encodes to. (A prompt that ends with a space therefore masks the first token of the
/// answer too, when the tokenizer joins the space to the word: kept, so that losses agree with AutoModel's.) Throws UserError naming `where` when the
/// sample is longer than the context, or has a token that the model lacks.
InstructionSample prompt_completion_sample(std::string_view prompt, std::string_view answer, const InstructionOptions& options,
                                           const DatasetContext& context, const std::string& where);

/// A conversation and the tools that its template sees (null for none).
struct Conversation {
  OrderedJson messages;
  OrderedJson tools = nullptr;
};

/// AutoModel's format_chat_template: the conversation rendered with the chat template (no further special tokens). Where the template marks what the
/// assistant says with {% generation %}, the tokens that touch a mark are trained on. Otherwise, when only answers are trained on, an assistant's
/// turn reaches from the end of the conversation rendered up to it to the end of the conversation rendered with it. Reasoning is located by rendering
/// once more without it. A template without a system role gets the system text at the head of the first user message. Throws UserError naming `where`
/// as above, when there is no assistant's turn to train on, and when the template rewrites earlier turns so that turns cannot be located.
InstructionSample conversation_sample(const Conversation& conversation, const InstructionOptions& options, const DatasetContext& context,
                                      const std::string& where);

/// The tokens of the conversation as rendered. UserError as for conversation_bytes.
std::int64_t conversation_tokens(const Conversation& conversation, const DatasetContext& context, const std::string& where);

/// The bytes of the conversation as rendered: a bound on its tokens (except with tokenizers whose normalizer lengthens text). UserError naming
/// `where` when the template refuses the conversation.
std::int64_t conversation_bytes(const Conversation& conversation, const DatasetContext& context, const std::string& where);

/// The check for long samples before training begins. Only samples whose number of bytes says that they may be too long are made, because a token
/// holds at least one byte (except with tokenizers whose normalizer lengthens text).
class LongSamples {
 public:
  LongSamples(const InstructionOptions& options, const DatasetContext& context);
  /// From any thread. `make` makes the sample whose text has `num_bytes`: UserError when it does not fit into the model, counted when it is cut.
  void check(std::int64_t num_bytes, const std::function<InstructionSample()>& make);
  /// "; 12 of them cut to 512 tokens", or nothing.
  std::string description() const;

 private:
  std::int64_t limit_;  ///< tokens; 0: none
  std::atomic<std::int64_t> num_cut_ = 0;
};

}  // namespace tessera::data
