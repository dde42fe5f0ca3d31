#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace

IncrementalDecoder::IncrementalDecoder(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string IncrementalDecoder::push(TokenId id) {
  window_.push_back(id);
  // The text may end in a character that the next tokens finish; bytes spelled as tokens of their own may be joined to any later ones.
  if (tokenizer_.continues_character(id)) return "";
  std::string text = tokenizer_.decode(window_, skip_special_tokens_);
  if (text.size() <= emitted_ || text.ends_with(kReplacementCharacter)) return "";
  std::string fresh = text.substr(emitted_);
  // What has just been returned stays as context: decoders treat a first token differently.
  window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(num_context_));
  num_context_ = window_.size();
  emitted_ = tokenizer_.decode(window_, skip_special_tokens_).size();
  return fresh;
}

std::string IncrementalDecoder::finish() {
  const std::string text = tokenizer_.decode(window_, skip_special_tokens_);
  std::string rest = text.size() > emitted_ ? text.substr(emitted_) : "";
  window_.clear();
  num_context_ = 0;
  emitted_ = 0;
  return rest;
}

}  // namespace tessera::data
