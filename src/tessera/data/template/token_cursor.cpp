#include "tessera/data/template/token_cursor.h"

namespace tessera::data::jinja {

std::string TokenCursor::described(const Token& token) {
  switch (token.kind) {
    case TokenKind::end:
      return "end of template";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::text:
    case TokenKind::block_begin:
    case TokenKind::variable_begin:
      return "template text";
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace tessera::data::jinja
