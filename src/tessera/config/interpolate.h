#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/config/node.h"
#include "tessera/core/error.h"

namespace tessera::config {

/// The value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(std::string_view)>;
/// The process's own.
Environment process_environment();

/// Replaces `${VAR}`, `${VAR,default}`, `${oc.env:VAR}`, `${oc.env:VAR,default}` and `$VAR` in every scalar below `node`; the text as written stays
/// in Node::placeholder. What was put in is not searched again. A variable that is not set and has no default is a problem.
void interpolate(Node& node, const Environment& environment, ProblemList& problems);

/// Whether a value under this key is hidden when printed or saved: a word of the key (split at _ - . and case) is password, secret, token,
/// apikey, authorization or auth, or two neighbours are api key. So `hf_token` and `apiKey`, but not `tokenizer` or `author`; tokens of a vocabulary
/// (eos_token, pad_token_id) and numbers and booleans about tokens (token_loss_weight) are no secrets.
bool is_secret(std::string_view key, const Node& value);

}  // namespace tessera::config
