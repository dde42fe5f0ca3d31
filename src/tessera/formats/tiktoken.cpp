#include "tessera/formats/tiktoken.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <set>

#include "tessera/core/base64.h"
#include "tessera/core/error.h"

namespace tessera::formats {
namespace {

constexpr const char* kDamagedRanks = "download or copy the file again";
constexpr std::int64_t kLargestRank = (1 << 22) - 1;

std::optional<TiktokenToken> parse_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos) return std::nullopt;
  const auto bytes = base64_decode(line.substr(0, space));
  std::int64_t rank = -1;
  const auto [end, error] = std::from_chars(line.data() + space + 1, line.data() + line.size(), rank);
  if (!bytes || bytes->empty() || error != std::errc() || end != line.data() + line.size() || rank < 0 || rank > kLargestRank) return std::nullopt;
  return TiktokenToken{*bytes, rank};
}

}  // namespace

bool looks_like_tiktoken(std::string_view text) { return parse_line(text.substr(0, text.find('\n'))).has_value(); }

std::vector<TiktokenToken> parse_tiktoken(std::string_view text, const std::string& where) {
  std::vector<TiktokenToken> tokens;
  std::set<std::int64_t> ranks;
  std::set<std::string, std::less<>> spellings;
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty()) continue;
    const auto token = parse_line(line);
    if (!token)
      throw UserError(
          {fmt::format("{}:{}", where, line_number), "not a line of a tiktoken rank file", "base64 bytes, a space, a rank", kDamagedRanks});
    if (!ranks.insert(token->rank).second || !spellings.insert(token->bytes).second)
      throw UserError({fmt::format("{}:{}", where, line_number), "a token or rank that was given before",
                       "every token has one rank, and every rank one token", kDamagedRanks});
    tokens.push_back(*token);
  }
  if (tokens.empty()) throw UserError({where, "the tiktoken rank file is empty", "", kDamagedRanks});
  return tokens;
}

}  // namespace tessera::formats
