#include "tessera/data/template/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tessera::data::jinja {

ExpressionPtr ExpressionParser::make(ExpressionKind kind, std::string text) const {
  auto result = std::make_unique<Expression>();
  result->kind = kind;
  result->line = peek().line;
  result->text = std::move(text);
  return result;
}

ExpressionPtr ExpressionParser::joined(ExpressionPtr node, ExpressionPtr left, ExpressionPtr right) {
  node->operands.push_back(std::move(left));
  node->operands.push_back(std::move(right));
  return node;
}

bool ExpressionParser::ends_tuple() const {
  const TokenKind kind = peek().kind;
  return kind == TokenKind::BlockEnd || kind == TokenKind::VariableEnd || is_op(")") || is_op("=");
}

ExpressionPtr ExpressionParser::tuple_or_expression(bool with_condition) {
  const auto one = [&] { return with_condition ? expression() : logical_or(); };
  ExpressionPtr first = one();
  if (!is_op(",")) return first;
  ExpressionPtr tuple = make(ExpressionKind::Tuple);
  tuple->operands.push_back(std::move(first));
  while (accept_op(",")) {
    if (ends_tuple() || is_name("if") || is_name("recursive")) break;
    tuple->operands.push_back(one());
  }
  return tuple;
}

ExpressionPtr ExpressionParser::expression() {
  const Depth depth(*this);
  ExpressionPtr value = logical_or();
  for (int links = 0; accept_name("if"); ++links) {
    check_chain(links);
    ExpressionPtr node = make(ExpressionKind::Conditional);
    node->operands.push_back(std::move(value));
    node->operands.push_back(logical_or());
    node->operands.push_back(accept_name("else") ? expression() : nullptr);
    value = std::move(node);
  }
  return value;
}

ExpressionPtr ExpressionParser::logical_or() {
  ExpressionPtr left = logical_and();
  for (int links = 0; is_name("or"); ++links) {
    check_chain(links);
    ExpressionPtr node = make(ExpressionKind::Logical, take().text);
    left = joined(std::move(node), std::move(left), logical_and());
  }
  return left;
}

ExpressionPtr ExpressionParser::logical_and() {
  ExpressionPtr left = logical_not();
  for (int links = 0; is_name("and"); ++links) {
    check_chain(links);
    ExpressionPtr node = make(ExpressionKind::Logical, take().text);
    left = joined(std::move(node), std::move(left), logical_not());
  }
  return left;
}

ExpressionPtr ExpressionParser::logical_not() {
  if (!is_name("not")) return comparison();
  const Depth depth(*this);
  ExpressionPtr node = make(ExpressionKind::Unary, take().text);
  node->operands.push_back(logical_not());
  return node;
}

std::string ExpressionParser::comparison_operator() {
  for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"})
    if (accept_op(op)) return std::string(op);
  if (accept_name("in")) return "in";
  if (!is_name("not") || !is_name("in", 1)) return "";
  take();
  take();
  return "not in";
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr first = sum();
  ExpressionPtr node;
  for (std::string op = comparison_operator(); !op.empty(); op = comparison_operator()) {
    if (node == nullptr) {
      node = make(ExpressionKind::Comparison);
      node->operands.push_back(std::move(first));
    }
    node->operators.push_back(std::move(op));
    node->operands.push_back(sum());
  }
  return node == nullptr ? std::move(first) : std::move(node);
}

template <class Next>
ExpressionPtr ExpressionParser::left_associative(std::initializer_list<std::string_view> operators, const Next& next) {
  ExpressionPtr left = next();
  for (int links = 0; std::any_of(operators.begin(), operators.end(), [&](std::string_view op) { return is_op(op); }); ++links) {
    check_chain(links);
    ExpressionPtr node = make(ExpressionKind::Binary, take().text);
    left = joined(std::move(node), std::move(left), next());
  }
  return left;
}

ExpressionPtr ExpressionParser::sum() {
  return left_associative({"+", "-"}, [&] { return concatenation(); });
}

ExpressionPtr ExpressionParser::concatenation() {
  return left_associative({"~"}, [&] { return product(); });
}

ExpressionPtr ExpressionParser::product() {
  return left_associative({"*", "/", "//", "%"}, [&] { return power(); });
}

ExpressionPtr ExpressionParser::power() {
  return left_associative({"**"}, [&] { return unary(/*with_filter=*/true); });
}

ExpressionPtr ExpressionParser::unary(bool with_filter) {
  const Depth depth(*this);
  ExpressionPtr value;
  if (is_op("-") || is_op("+")) {
    value = make(ExpressionKind::Unary, take().text);
    value->operands.push_back(unary(/*with_filter=*/false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filter ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  const Token& token = peek();
  if (token.kind == TokenKind::Name) return name();
  if (token.kind == TokenKind::String) {
    ExpressionPtr node = make(ExpressionKind::Constant);
    std::string text;
    while (peek().kind == TokenKind::String) text += take().text;
    node->constant = Value(std::move(text));
    return node;
  }
  if (token.kind == TokenKind::Integer || token.kind == TokenKind::Real) return number();
  if (is_op("(")) return parentheses();
  if (is_op("[")) return list();
  if (is_op("{")) return dict();
  fail(fmt::format("unexpected {}", described(token)));
}

ExpressionPtr ExpressionParser::name() {
  ExpressionPtr node = make(ExpressionKind::Constant);
  const std::string text = take().text;
  if (text == "true" || text == "True") {
    node->constant = Value(true);
  } else if (text == "false" || text == "False") {
    node->constant = Value(false);
  } else if (text == "none" || text == "None") {
    node->constant = Value(None{});
  } else {
    node->kind = ExpressionKind::Name;
    node->text = text;
  }
  return node;
}

ExpressionPtr ExpressionParser::number() {
  ExpressionPtr node = make(ExpressionKind::Constant);
  const Token token = take();
  const char* end = token.text.data() + token.text.size();
  if (token.kind == TokenKind::Real) {
    double value = 0;
    std::from_chars(token.text.data(), end, value);
    node->constant = Value(value);
  } else {
    std::int64_t value = 0;
    if (std::from_chars(token.text.data(), end, value).ec != std::errc()) fail(fmt::format("the number {} is too large", token.text));
    node->constant = Value(value);
  }
  return node;
}

ExpressionPtr ExpressionParser::parentheses() {
  take();
  if (accept_op(")")) return make(ExpressionKind::Tuple);
  ExpressionPtr inner = tuple_or_expression();
  expect_op(")");
  return inner;
}

ExpressionPtr ExpressionParser::list() {
  ExpressionPtr node = make(ExpressionKind::List);
  take();
  while (!is_op("]")) {
    if (!node->operands.empty()) expect_op(",");
    if (is_op("]")) break;
    node->operands.push_back(expression());
  }
  expect_op("]");
  return node;
}

ExpressionPtr ExpressionParser::dict() {
  ExpressionPtr node = make(ExpressionKind::Dict);
  take();
  while (!is_op("}")) {
    if (!node->operands.empty()) expect_op(",");
    if (is_op("}")) break;
    node->operands.push_back(expression());
    expect_op(":");
    node->operands.push_back(expression());
  }
  expect_op("}");
  return node;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  for (int links = 0;; ++links) {
    check_chain(links);
    if (is_op("."))
      value = attribute(std::move(value));
    else if (is_op("["))
      value = subscript(std::move(value));
    else if (is_op("("))
      value = call(std::move(value));
    else
      return value;
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr object) {
  ExpressionPtr node = make(ExpressionKind::Attribute);
  take();
  if (peek().kind == TokenKind::Integer) {
    node->kind = ExpressionKind::Subscript;
    return joined(std::move(node), std::move(object), number());
  }
  node->text = expect_identifier();
  node->operands.push_back(std::move(object));
  return node;
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  ExpressionPtr node = make(ExpressionKind::Subscript);
  take();
  ExpressionPtr first = is_op(":") ? nullptr : tuple_or_expression();
  if (!is_op(":")) {
    expect_op("]");
    return joined(std::move(node), std::move(object), std::move(first));
  }
  node->kind = ExpressionKind::Slice;
  node = joined(std::move(node), std::move(object), std::move(first));
  for (int part = 0; part < 2; ++part) node->operands.push_back(accept_op(":") && !is_op(":") && !is_op("]") ? expression() : nullptr);
  expect_op("]");
  return node;
}

std::vector<Argument> ExpressionParser::arguments() {
  std::vector<Argument> list;
  expect_op("(");
  while (!is_op(")")) {
    if (!list.empty()) expect_op(",");
    if (is_op(")")) break;
    if (is_op("*") || is_op("**")) fail("argument unpacking is not supported");
    Argument argument;
    if (peek().kind == TokenKind::Name && is_op("=", 1)) {
      argument.name = take().text;
      take();
    } else if (!list.empty() && !list.back().name.empty()) {
      fail("a positional argument follows a named one");
    }
    argument.value = expression();
    list.push_back(std::move(argument));
  }
  expect_op(")");
  return list;
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  ExpressionPtr node = make(ExpressionKind::Call);
  node->operands.push_back(std::move(callee));
  node->arguments = arguments();
  return node;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr value) {
  ExpressionPtr node = make(ExpressionKind::Filter);
  node->text = expect_identifier();
  node->operands.push_back(std::move(value));
  if (is_op("(")) node->arguments = arguments();
  return node;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr value) {
  const bool negated = accept_name("not");
  ExpressionPtr node = make(ExpressionKind::Test);
  node->text = expect_identifier();
  node->operands.push_back(std::move(value));
  const TokenKind kind = peek().kind;
  const bool joins = is_name("else") || is_name("or") || is_name("and") || is_name("if") || is_name("in") || is_name("not");
  if (is_op("(")) {
    node->arguments = arguments();
  } else if (is_name("is")) {
    fail("tests cannot follow each other");
  } else if ((kind == TokenKind::Name && !joins) || kind == TokenKind::String || kind == TokenKind::Integer || kind == TokenKind::Real ||
             is_op("[") || is_op("{")) {
    node->arguments.push_back({"", postfix(primary())});
  }
  if (!negated) return node;
  ExpressionPtr inverse = make(ExpressionKind::Unary, "not");
  inverse->operands.push_back(std::move(node));
  return inverse;
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr value) {
  for (int links = 0;; ++links) {
    check_chain(links);
    if (accept_op("|"))
      value = filter(std::move(value));
    else if (accept_name("is"))
      value = test(std::move(value));
    else if (is_op("("))
      value = call(std::move(value));
    else
      return value;
  }
}

}  // namespace tessera::data::jinja
