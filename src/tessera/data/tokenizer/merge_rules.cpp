#include "tessera/data/tokenizer/merge_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "tessera/core/error.h"
#include "tessera/data/tokenizer/json_section.h"
#include "tessera/data/tokenizer/token_table.h"

namespace tessera::data {

std::vector<Merge> merges_of_concatenations(const std::vector<RankedToken>& tokens) {
  TokenTable table(tokens.size());
  for (const RankedToken& token : tokens) table.insert(token.bytes, token.id);
  std::vector<Merge> merges;
  for (const RankedToken& token : tokens) {
    const std::string_view bytes = token.bytes;
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const TokenId left = table.find(bytes.substr(0, cut));
      const TokenId right = left < 0 ? -1 : table.find(bytes.substr(cut));
      if (right >= 0) merges.push_back({left, right, token.id, token.rank});
    }
  }
  std::sort(merges.begin(), merges.end(),
            [](const Merge& a, const Merge& b) { return std::tie(a.rank, a.left, a.right) < std::tie(b.rank, b.left, b.right); });
  return merges;
}

std::vector<Merge> merges_of_spellings(const std::vector<std::string>& merges, const std::vector<std::string>& vocabulary, const std::string& where) {
  TokenTable table(vocabulary.size());
  for (std::size_t i = 0; i < vocabulary.size(); ++i)
    if (!vocabulary[i].empty()) table.insert(vocabulary[i], static_cast<TokenId>(i));
  std::vector<Merge> rules;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string& merge = merges[i];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string::npos || space + 1 == merge.size())
      throw UserError({where, fmt::format("merge {} (\"{}\") must be two tokens with a space between", i, merge), "", kDamagedTokenizer});
    const std::string left = merge.substr(0, space);
    const std::string right = merge.substr(space + 1);
    const Merge rule = {table.find(left), table.find(right), table.find(left + right), static_cast<std::uint32_t>(i)};
    if (rule.left < 0 || rule.right < 0 || rule.merged < 0)
      throw UserError({where, fmt::format("merge {} (\"{}\") needs a token that is not in the vocabulary", i, merge), "", kDamagedTokenizer});
    rules.push_back(rule);
  }
  return rules;
}

}  // namespace tessera::data
