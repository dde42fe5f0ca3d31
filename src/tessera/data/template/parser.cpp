#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "tessera/data/template/ast.h"
#include "tessera/data/template/expression_parser.h"
#include "tessera/data/template/lexer.h"

namespace tessera::data::jinja {
namespace {

/// Statements, each up to the one that ends it.
class Parser : private ExpressionParser {
 public:
  explicit Parser(std::string_view source) : ExpressionParser(tokenize(source)) {}

  Block run() { return statements({}); }

 private:
  /// Up to a statement that begins with one of `ends`, whose name is left to be taken; with no ends up to the template's end.
  Block statements(std::initializer_list<std::string_view> ends) {
    const Depth depth(*this);
    Block block;
    while (true) {
      const Token& token = peek();
      if (token.kind == TokenKind::End) {
        if (ends.size() == 0) return block;
        fail(fmt::format("unexpected end of template, expected '{}'", *(ends.end() - 1)));
      }
      if (token.kind == TokenKind::Text) {
        Statement statement = begin(StatementKind::Text);
        statement.text = take().text;
        block.push_back(std::move(statement));
      } else if (token.kind == TokenKind::VariableBegin) {
        take();
        Statement statement = begin(StatementKind::Output);
        statement.expression = tuple_or_expression();
        if (peek().kind != TokenKind::VariableEnd) fail(fmt::format("expected the end of the print statement, got {}", described(peek())));
        take();
        block.push_back(std::move(statement));
      } else {
        take();
        if (peek().kind == TokenKind::Name && std::find(ends.begin(), ends.end(), peek().text) != ends.end()) return block;
        block.push_back(statement());
      }
    }
  }

  Statement begin(StatementKind kind) const {
    Statement statement;
    statement.kind = kind;
    statement.line = peek().line;
    return statement;
  }

  Statement statement() {
    const std::string name = peek().kind == TokenKind::Name ? peek().text : "";
    if (name == "if") return condition();
    if (name == "for") return loop();
    if (name == "set") return assignment();
    if (name == "macro") return macro();
    if (name == "call") return call_block();
    if (name == "filter") return filter_block();
    if (name == "with") return with_block();
    if (name == "generation") return generation();
    if (name == "break" || name == "continue") {
      Statement result = begin(name == "break" ? StatementKind::BreakLoop : StatementKind::ContinueLoop);
      take();
      expect_block_end();
      return result;
    }
    static constexpr std::array<std::string_view, 8> kElsewhere = {"include", "import", "from", "extends", "block", "autoescape", "trans", "do"};
    if (std::find(kElsewhere.begin(), kElsewhere.end(), name) != kElsewhere.end()) fail(fmt::format("the statement '{}' is not supported", name));
    fail(fmt::format("unknown statement {}", described(peek())));
  }

  Statement condition() {
    Statement result = begin(StatementKind::Condition);
    take();
    result.expression = tuple_or_expression();
    expect_block_end();
    result.body = statements({"elif", "else", "endif"});
    if (is_name("elif")) {
      const Depth depth(*this);
      result.otherwise.push_back(condition());
      return result;
    }
    if (accept_name("else")) {
      expect_block_end();
      result.otherwise = statements({"endif"});
    }
    take();
    expect_block_end();
    return result;
  }

  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool parenthesised = accept_op("(");
    names.push_back(expect_identifier());
    while (accept_op(",")) {
      if (peek().kind != TokenKind::Name || is_name("in")) break;
      names.push_back(expect_identifier());
    }
    if (parenthesised) expect_op(")");
    return names;
  }

  Statement loop() {
    Statement result = begin(StatementKind::Loop);
    take();
    result.targets = targets();
    if (!accept_name("in")) fail(fmt::format("expected 'in', got {}", described(peek())));
    result.expression = tuple_or_expression(/*with_condition=*/false);
    if (accept_name("if")) result.filter = expression();
    if (is_name("recursive")) fail("recursive loops are not supported");
    expect_block_end();
    result.body = statements({"else", "endfor"});
    if (accept_name("else")) {
      expect_block_end();
      result.otherwise = statements({"endfor"});
    }
    take();
    expect_block_end();
    return result;
  }

  Statement assignment() {
    Statement result = begin(StatementKind::Assign);
    take();
    if (is_op(".", 1)) {
      result.targets.push_back(expect_identifier());
      take();
      result.text = expect_identifier();
    } else {
      result.targets = targets();
    }
    if (accept_op("=")) {
      result.expression = tuple_or_expression();
      expect_block_end();
      return result;
    }
    result.kind = StatementKind::AssignBlock;
    for (int links = 0; accept_op("|"); ++links) {
      check_chain(links);
      result.filter = filter(std::move(result.filter));
    }
    expect_block_end();
    result.body = statements({"endset"});
    take();
    expect_block_end();
    return result;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> list;
    expect_op("(");
    while (!is_op(")")) {
      if (!list.empty()) expect_op(",");
      if (is_op(")")) break;
      Parameter parameter{expect_identifier(), nullptr};
      if (accept_op("="))
        parameter.fallback = expression();
      else if (!list.empty() && list.back().fallback != nullptr)
        fail("a parameter without default follows one with default");
      list.push_back(std::move(parameter));
    }
    expect_op(")");
    return list;
  }

  Statement macro() {
    Statement result = begin(StatementKind::Macro);
    take();
    result.text = expect_identifier();
    result.parameters = parameters();
    expect_block_end();
    result.body = statements({"endmacro"});
    take();
    if (peek().kind == TokenKind::Name) take();
    expect_block_end();
    return result;
  }

  Statement call_block() {
    Statement result = begin(StatementKind::CallBlock);
    take();
    if (is_op("(")) result.parameters = parameters();
    result.expression = expression();
    if (result.expression->kind != ExpressionKind::Call) fail("expected a call");
    expect_block_end();
    result.body = statements({"endcall"});
    take();
    expect_block_end();
    return result;
  }

  Statement filter_block() {
    Statement result = begin(StatementKind::FilterBlock);
    take();
    result.expression = filter(nullptr);
    for (int links = 0; accept_op("|"); ++links) {
      check_chain(links);
      result.expression = filter(std::move(result.expression));
    }
    expect_block_end();
    result.body = statements({"endfilter"});
    take();
    expect_block_end();
    return result;
  }

  Statement with_block() {
    Statement result = begin(StatementKind::WithBlock);
    take();
    while (peek().kind != TokenKind::BlockEnd) {
      if (!result.assignments.empty()) expect_op(",");
      std::string name = expect_identifier();
      expect_op("=");
      result.assignments.emplace_back(std::move(name), expression());
    }
    expect_block_end();
    result.body = statements({"endwith"});
    take();
    expect_block_end();
    return result;
  }

  Statement generation() {
    Statement result = begin(StatementKind::Generation);
    take();
    expect_block_end();
    result.body = statements({"endgeneration"});
    take();
    expect_block_end();
    return result;
  }
};

}  // namespace

Block parse(std::string_view source) { return Parser(source).run(); }

}  // namespace tessera::data::jinja
