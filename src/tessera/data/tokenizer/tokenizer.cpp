#include "tessera/data/tokenizer/tokenizer.h"

#include <algorithm>
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

std::vector<TokenId> encode_valid(const TokenizerEngine& engine, std::string_view text, bool add_special_tokens) {
  const BorrowedScratch scratch(engine.scratch_pool);
  std::vector<TokenId> ids;
  if (add_special_tokens) ids = engine.frame.before;
  for (const Section& section : engine.raw_finder.sections(text)) {
    if (section.id >= 0)
      ids.push_back(section.id);
    else
      engine.encode_section(text.substr(section.begin, section.end - section.begin), section.begin == 0, ids, *scratch);
  }
  if (add_special_tokens) ids.insert(ids.end(), engine.frame.after.begin(), engine.frame.after.end());
  return ids;
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
