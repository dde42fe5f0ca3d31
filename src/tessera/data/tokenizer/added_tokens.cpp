#include "tessera/data/tokenizer/added_tokens.h"

#include <algorithm>

#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data {
namespace {

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

/// Start of the character that ends at `end` (> 0).
std::size_t character_before(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && !starts_character(text[end]));
  return end;
}

/// As the `tokenizers` library sees words, whose parts joiners (U+200C, U+200D) are.
bool is_part_of_word(char32_t value) { return is_word_character(value) || value == 0x200C || value == 0x200D; }

bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_part_of_word(code_point_at(text, character_before(text, begin)).value)) return true;
  return end < text.size() && is_part_of_word(code_point_at(text, end).value);
}

std::size_t spaces_begin_before(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::size_t begin = character_before(text, end);
    if (!is_white_space(code_point_at(text, begin).value)) break;
    end = begin;
  }
  return end;
}

std::size_t spaces_end_after(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const auto [value, num_bytes] = code_point_at(text, begin);
    if (!is_white_space(value)) break;
    begin += num_bytes;
  }
  return begin;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens, bool normalized, const std::vector<NormalizerStep>& normalizer) {
  std::vector<std::pair<std::string, TokenId>> keys;
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    keys.emplace_back(normalized ? apply_normalizer(normalizer, token.content) : token.content, static_cast<TokenId>(tokens_.size()));
    tokens_.push_back(token);
  }
  trie_ = ByteTrie(std::move(keys));
}

bool AddedTokenFinder::longest_at(std::string_view text, std::size_t position, std::size_t& length, const AddedToken*& token) const {
  length = 0;
  trie_.for_each_prefix(text.substr(position), [&](std::size_t found, TokenId index) {
    length = found;
    token = &tokens_[static_cast<std::size_t>(index)];
  });
  return length > 0;
}

bool AddedTokenFinder::spelled_in(std::string_view text) const {
  std::size_t length = 0;
  const AddedToken* token = nullptr;
  for (std::size_t i = 0; !trie_.empty() && i < text.size(); ++i)
    if (trie_.may_begin(static_cast<unsigned char>(text[i])) && longest_at(text, i, length, token)) return true;
  return false;
}

std::vector<Section> AddedTokenFinder::sections(std::string_view text) const {
  std::vector<Section> sections;
  std::size_t covered = 0;
  std::size_t length = 0;
  const AddedToken* token = nullptr;
  for (std::size_t i = 0; !trie_.empty() && i < text.size();) {
    if (!trie_.may_begin(static_cast<unsigned char>(text[i])) || !longest_at(text, i, length, token)) {
      ++i;
      continue;
    }
    std::size_t begin = i;
    std::size_t end = i + length;
    i = end;
    if (token->single_word && touches_word(text, begin, end)) continue;
    if (token->lstrip) begin = std::max(spaces_begin_before(text, begin), covered);
    if (token->rstrip) end = spaces_end_after(text, end);
    if (covered < begin) sections.push_back({covered, begin, -1});
    sections.push_back({begin, end, token->id});
    covered = end;
  }
  if (covered < text.size()) sections.push_back({covered, text.size(), -1});
  return sections;
}

}  // namespace tessera::data
