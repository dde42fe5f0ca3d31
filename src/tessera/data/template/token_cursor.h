#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/template/lexer.h"
#include "tessera/data/template/value.h"

namespace tessera::data::jinja {

/// A position in a template's tokens: what the parsers read through. Fails with TemplateError naming the current line.
class TokenCursor {
 public:
  explicit TokenCursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  static constexpr int kDeepest = 100;       // statements and expressions within each other
  static constexpr int kLongestChain = 200;  // operators, links and filters one after another: each makes the tree higher

  /// Counts how deep the recursion is, so that a template cannot exhaust the stack.
  class Depth {
   public:
    explicit Depth(TokenCursor& cursor) : cursor_(cursor) {
      if (++cursor_.depth_ > kDeepest) cursor_.fail(fmt::format("nested deeper than {}", kDeepest));
    }
    ~Depth() { --cursor_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    TokenCursor& cursor_;
  };

  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(position_ + ahead, tokens_.size() - 1)]; }
  Token take() {
    Token token = peek();
    if (position_ + 1 < tokens_.size()) ++position_;
    return token;
  }
  [[noreturn]] void fail(const std::string& message) const { throw TemplateError(message, peek().line); }

  void check_chain(int links) const {
    if (links >= kLongestChain) fail(fmt::format("more than {} operators or filters one after another", kLongestChain));
  }

  /// The token as errors name it.
  static std::string described(const Token& token);
  bool is_op(std::string_view op, std::size_t ahead = 0) const { return peek(ahead).kind == TokenKind::Op && peek(ahead).text == op; }
  bool is_name(std::string_view name, std::size_t ahead = 0) const { return peek(ahead).kind == TokenKind::Name && peek(ahead).text == name; }
  bool accept_op(std::string_view op) {
    if (!is_op(op)) return false;
    take();
    return true;
  }
  bool accept_name(std::string_view name) {
    if (!is_name(name)) return false;
    take();
    return true;
  }
  void expect_op(std::string_view op) {
    if (!accept_op(op)) fail(fmt::format("expected '{}', got {}", op, described(peek())));
  }
  std::string expect_identifier() {
    if (peek().kind != TokenKind::Name) fail(fmt::format("expected a name, got {}", described(peek())));
    return take().text;
  }
  void expect_block_end() {
    if (peek().kind != TokenKind::BlockEnd) fail(fmt::format("expected the end of the statement, got {}", described(peek())));
    take();
  }

 private:
  std::vector<Token> tokens_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace tessera::data::jinja
