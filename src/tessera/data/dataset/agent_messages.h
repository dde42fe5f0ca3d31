#pragma once

#include <cstdint>
#include <string>

#include "tessera/core/json.h"
#include "tessera/data/dataset/instruction.h"

namespace tessera::data {

struct AgentOptions {
  bool trim_incomplete_last_turn = false;  ///< leave out what follows the assistant's last message
  bool drop_history_reasoning = false;     ///< keep `reasoning_content` in the assistant's last message only
};

/// The conversation in a record as AutoModel's make_agent_chat_dataset makes it from `messages` (OpenAI's, or chatml's with the roles tool_call and
/// tool_response) or `conversations` (ShareGPT's, with function_call and observation): consecutive calls become one message of the assistant, joined
/// to its text before them, and answers get the calls' ids. UserError naming `where` for anything that does not fit.
Conversation agent_conversation(const OrderedJson& record, const AgentOptions& options, const std::string& where);

/// The conversation with as many of its newest exchanges (each begins with a user's message) as render to at most `num_tokens` tokens, but the last
/// one at least; system messages at its head stay.
Conversation with_recent_exchanges(Conversation conversation, std::int64_t num_tokens, const DatasetContext& context, const std::string& where);

}  // namespace tessera::data
