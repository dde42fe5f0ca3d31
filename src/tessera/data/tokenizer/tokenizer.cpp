#include "tessera/data/tokenizer/tokenizer.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/data/tokenizer/byte_level.h"
#include "tessera/data/tokenizer/engine.h"

namespace tessera::data {
namespace {

/// Offsets within a text are 32 bits wide in ICU and in the merge lists.
constexpr std::size_t kLongestText = std::size_t{1} << 30;

/// Takes working memory from the pool for one call.
class BorrowedScratch {
 public:
  explicit BorrowedScratch(ScratchPool& pool) : pool_(pool), scratch_(pool.take()) {}
  ~BorrowedScratch() { pool_.give_back(std::move(scratch_)); }
  BorrowedScratch(const BorrowedScratch&) = delete;
  BorrowedScratch& operator=(const BorrowedScratch&) = delete;
  EncodeScratch& operator*() const { return *scratch_; }

 private:
  ScratchPool& pool_;
  std::unique_ptr<EncodeScratch> scratch_;
};

/// Room for the ids of a text, so that they seldom move as they grow: words of most languages have more bytes than this a token.
void reserve_ids(std::vector<TokenId>& ids, std::string_view text) {
  constexpr std::size_t kBytesPerToken = 3;
  ids.reserve(ids.size() + text.size() / kBytesPerToken + 1);
}

std::vector<TokenId> encode_valid(const TokenizerEngine& engine, std::string_view text, bool add_special_tokens) {
  const BorrowedScratch scratch(engine.scratch_pool);
  std::vector<TokenId> ids;
  if (add_special_tokens) ids = engine.frame.before;
  reserve_ids(ids, text);
  for (const Section& section : engine.raw_finder.sections(text)) {
    if (section.id >= 0)
      ids.push_back(section.id);
    else
      engine.encode_section(text.substr(section.begin, section.end - section.begin), section.begin == 0, ids, *scratch);
  }
  if (add_special_tokens) ids.insert(ids.end(), engine.frame.after.begin(), engine.frame.after.end());
  return ids;
}

/// Whether the words of this text, and those of its beginnings, are what the engine's sole pattern cuts.
bool cut_by_pattern_alone(const TokenizerEngine& engine, std::string_view text) {
  if (engine.sole_pattern == nullptr || !keep_beginnings(engine.normalizer) || first_invalid_utf8(text) != std::string_view::npos) return false;
  return engine.normalizer.empty() || apply_normalizer(engine.normalizer, std::string(text)) == text;
}

/// Turns matches and what lies between them into ids.
class WordEncoder {
 public:
  WordEncoder(const TokenizerEngine& engine, EncodeScratch& scratch, std::string_view text, std::size_t begin, std::vector<TokenId>& ids)
      : engine_(engine), scratch_(scratch), text_(text), done_(begin), ids_(ids) {}
  void operator()(std::size_t begin, std::size_t end) {
    encode_until(begin);
    encode_until(end);
  }
  void encode_until(std::size_t end) {
    if (end > done_) engine_.encode_word(text_.substr(done_, end - done_), ids_, scratch_);
    done_ = std::max(done_, end);
  }
  std::size_t done() const { return done_; }

 private:
  const TokenizerEngine& engine_;
  EncodeScratch& scratch_;
  std::string_view text_;
  std::size_t done_;
  std::vector<TokenId>& ids_;
};

/// Words from `begin` on, where the pattern is searched from `start` on.
void encode_words(const TokenizerEngine& engine, EncodeScratch& scratch, std::string_view text, std::size_t begin, std::size_t start,
                  std::vector<TokenId>& ids) {
  WordEncoder encoder(engine, scratch, text, begin, ids);
  engine.sole_pattern->for_each_match(text, std::ref(encoder), start);
  encoder.encode_until(text.size());
}

PrefixedEncoding encode_sharing_words(const TokenizerEngine& engine, std::string_view text, std::string_view prefix, bool add_special_tokens) {
  const BorrowedScratch scratch(engine.scratch_pool);
  PrefixedEncoding encoding;
  if (add_special_tokens) encoding.ids = engine.frame.before;
  reserve_ids(encoding.ids, text);
  const std::size_t frame = encoding.ids.size();
  WordEncoder common(engine, *scratch, prefix, 0, encoding.ids);
  const std::size_t start = engine.sole_pattern->for_each_settled_match(prefix, std::ref(common));
  std::vector<TokenId> rest_of_prefix;
  encode_words(engine, *scratch, prefix, common.done(), start, rest_of_prefix);
  encoding.prefix_size = encoding.ids.size() - frame + rest_of_prefix.size();
  encode_words(engine, *scratch, text, common.done(), start, encoding.ids);
  if (add_special_tokens) encoding.ids.insert(encoding.ids.end(), engine.frame.after.begin(), engine.frame.after.end());
  return encoding;
}

}  // namespace

Tokenizer::Tokenizer(TokenizerDefinition definition) : engine_(std::make_shared<const TokenizerEngine>(std::move(definition))) {}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  if (text.size() > kLongestText)
    throw UserError({"", "a text of " + human_bytes(static_cast<double>(text.size())) + " is too long to tokenize at once", "",
                     "split it into documents of at most 1 GiB"});
  if (first_invalid_utf8(text) == std::string_view::npos) return encode_valid(*engine_, text, add_special_tokens);
  return encode_valid(*engine_, replace_invalid_utf8(text), add_special_tokens);
}

PrefixedEncoding Tokenizer::encode_with_prefix(std::string_view text, std::size_t prefix_bytes, bool add_special_tokens) const {
  const std::string_view prefix = text.substr(0, prefix_bytes);
  const bool cuts_a_character = prefix.size() < text.size() && (static_cast<unsigned char>(text[prefix.size()]) & 0xC0) == 0x80;
  const bool shares = text.size() <= kLongestText && !cuts_a_character && cut_by_pattern_alone(*engine_, text) &&
                      !engine_->raw_finder.spelled_in(text) && !engine_->normalized_finder.spelled_in(text);
  if (shares) return encode_sharing_words(*engine_, text, prefix, add_special_tokens);
  return {encode(text, add_special_tokens), encode(prefix, false).size()};
}

FrameSize Tokenizer::frame_size() const { return {engine_->frame.before.size(), engine_->frame.after.size()}; }

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  const TokenizerEngine& engine = *engine_;
  const auto wanted = [&](TokenId id) {
    const auto index = static_cast<std::size_t>(id);
    return id >= 0 && index < engine.spellings.size() && !engine.spellings[index].empty() && !(skip_special_tokens && engine.special[index]);
  };
  if (!engine.byte_level_bytes.empty()) {
    std::string bytes;
    for (const TokenId id : ids)
      if (wanted(id)) bytes += engine.byte_level_bytes[static_cast<std::size_t>(id)];
    return first_invalid_utf8(bytes) == std::string::npos ? bytes : replace_invalid_utf8(bytes);
  }
  std::vector<std::string> tokens;
  for (const TokenId id : ids)
    if (wanted(id)) tokens.push_back(engine.spellings[static_cast<std::size_t>(id)]);
  return apply_decoder(engine.decoder, std::move(tokens));
}

std::size_t Tokenizer::vocab_size() const { return engine_->spellings.size(); }

std::optional<std::string> Tokenizer::token(TokenId id) const {
  const auto index = static_cast<std::size_t>(id);
  if (id < 0 || index >= engine_->spellings.size() || engine_->spellings[index].empty()) return std::nullopt;
  return engine_->spellings[index];
}

std::optional<TokenId> Tokenizer::id(std::string_view token) const {
  const TokenId id = engine_->ids.find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < engine_->special.size() && engine_->special[static_cast<std::size_t>(id)];
}

bool Tokenizer::continues_character(TokenId id) const { return engine_->decodes_byte_tokens && byte_of_token(token(id).value_or("")).has_value(); }

const SpecialTokens& Tokenizer::special_tokens() const { return engine_->definition.special_tokens; }
const std::vector<TokenId>& Tokenizer::end_of_generation() const { return engine_->definition.end_of_generation; }
const std::optional<std::string>& Tokenizer::chat_template() const { return engine_->definition.chat_template; }
std::string Tokenizer::spelling(std::optional<TokenId> id) const { return id ? token(*id).value_or("") : ""; }
const TokenizerDefinition& Tokenizer::definition() const { return engine_->definition; }

}  // namespace tessera::data
