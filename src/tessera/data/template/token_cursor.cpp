#include "tessera/data/template/token_cursor.h"

namespace tessera::data::jinja {

std::string TokenCursor::described(const Token& token) {
  switch (token.kind) {
    case TokenKind::End:
      return "end of template";
    case TokenKind::BlockEnd:
      return "end of statement block";
    case TokenKind::VariableEnd:
      return "end of print statement";
    case TokenKind::Text:
    case TokenKind::BlockBegin:
    case TokenKind::VariableBegin:
      return "template text";
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace tessera::data::jinja
