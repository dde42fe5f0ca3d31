#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/node.h"
#include "tessera/core/environment.h"
#include "tessera/core/error.h"

namespace tessera::config {

/// Replaces `${VAR}`, `${VAR,default}`, `${oc.env:VAR}`, `${oc.env:VAR,default}` and `$VAR` in every scalar below `node`; the text as written stays
/// in Node::placeholder. What was put in is not searched again. A variable that is not set and has no default is a problem, and so is any other `${`.
void interpolate(Node& node, const Environment& environment, ProblemList& problems);

/// Whether a value under this key is hidden when printed or saved: the key contains password, secret, token, apikey, api_key, authorization or auth,
/// whatever the case, as NeMo AutoModel decides it. Harmless are only the words about text and vocabularies that recipes use (`tokenizer`,
/// `num_tokens`, `eos_token`, `pad_token_id`, `calculate_per_token_loss`, …), `author` and `secretary`.
bool is_secret(std::string_view key);

/// Problems in which the values of the tree's placeholders are replaced by the placeholders as they are written: "${DATA}/x.jsonl is not on disk".
/// Values of less than four characters, numbers and booleans are replaced where they stand in quotes; elsewhere they are left: they reveal nothing,
/// and messages are full of them.
std::vector<Problem> with_placeholders(std::vector<Problem> problems, const Node& tree, const Environment& environment);
/// The same of a text.
std::string with_placeholders(std::string text, const Node& tree, const Environment& environment);
/// Runs what may name files of the recipe in its UserErrors, which then show them so.
template <class Work>
auto with_placeholders(const Node& tree, const Environment& environment, const Work& work) try {
  return work();
} catch (const UserError& error) {
  throw UserError(with_placeholders(error.problems(), tree, environment));
}

}  // namespace tessera::config
