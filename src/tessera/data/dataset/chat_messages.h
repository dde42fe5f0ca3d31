#pragma once

#include <string>

#include "tessera/core/json.h"
#include "tessera/data/dataset/instruction.h"

namespace tessera::data {

/// The conversation in a record as chat templates take it (AutoModel's ChatDataset): `messages` in OpenAI's form, or `conversations` in ShareGPT's
/// ({"from", "value"}), and `tools` (a list, or its JSON as text). Parts of a content are joined to one text; calls get an id and a type, and their
/// arguments become text. UserError naming `where` for anything that does not fit.
Conversation conversation_of(const OrderedJson& record, const std::string& where);
/// AutoModel's make_tulu3_dataset: OpenAI's `messages`, of which those of system, user and assistant count, without white space around what a user
/// says. UserError as above.
Conversation tulu3_conversation(const OrderedJson& record, const std::string& where);

/// `tools` of a record: a list, or its JSON as text; null when there are none. UserError naming `where` for anything else.
OrderedJson tools_of(const OrderedJson& record, const std::string& where);

}  // namespace tessera::data
