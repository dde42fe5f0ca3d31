#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::data::jinja {

enum class TokenKind { Text, BlockBegin, BlockEnd, VariableBegin, VariableEnd, Name, String, Integer, Real, Op, End };

struct Token {
  TokenKind kind = TokenKind::End;
  std::string text;  ///< of strings the value; of numbers the digits without underscores
  int line = 1;
};

/// Cuts a template into its texts, already trimmed as trim_blocks, lstrip_blocks and the - and + marks ask, and the tokens of its statements and
/// expressions; raw blocks are text, comments are left out. The last token is `end`. TemplateError (value.h) with the line for what cannot be read.
std::vector<Token> tokenize(std::string_view source);

}  // namespace tessera::data::jinja
