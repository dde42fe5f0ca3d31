#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// tiktoken's rank files: a line per token, its bytes in base64, a space, and its rank, which is also its id
/// (https://github.com/openai/tiktoken/blob/main/tiktoken/load.py).
namespace tessera::formats {

struct TiktokenToken {
  std::string bytes;
  std::int64_t rank = 0;
};

/// Whether the first line looks like a rank file's.
bool looks_like_tiktoken(std::string_view text);
/// In the order of the file. Throws UserError with "where:line" for a line of another form, a rank given twice or tokens given twice.
std::vector<TiktokenToken> parse_tiktoken(std::string_view text, const std::string& where);

}  // namespace tessera::formats
