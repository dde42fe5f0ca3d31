#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>

#include "tessera/data/template/ast.h"
#include "tessera/data/template/lexer.h"

namespace tessera::data::jinja {
namespace {

constexpr int kDeepest = 100;       // statements and expressions within each other
constexpr int kLongestChain = 200;  // operators, links and filters one after another: each makes the tree higher

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  Block run() {
    Block block = statements({});
    return block;
  }

 private:
  /// Counts how deep the recursion is, so that a template cannot exhaust the stack.
  class Depth {
   public:
    explicit Depth(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDeepest) parser_.fail(fmt::format("nested deeper than {}", kDeepest));
    }
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Parser& parser_;
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

  static std::string described(const Token& token) {
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
  bool is_op(std::string_view op, std::size_t ahead = 0) const { return peek(ahead).kind == TokenKind::op && peek(ahead).text == op; }
  bool is_name(std::string_view name, std::size_t ahead = 0) const { return peek(ahead).kind == TokenKind::name && peek(ahead).text == name; }
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
    if (peek().kind != TokenKind::name) fail(fmt::format("expected a name, got {}", described(peek())));
    return take().text;
  }
  void expect_block_end() {
    if (peek().kind != TokenKind::block_end) fail(fmt::format("expected the end of the statement, got {}", described(peek())));
    take();
  }

  // Statements ------------------------------------------------------------------------------------------------------------------------------

  /// Up to a statement that begins with one of `ends`, whose name is left to be taken; with no ends up to the template's end.
  Block statements(std::initializer_list<std::string_view> ends) {
    const Depth depth(*this);
    Block block;
    while (true) {
      const Token& token = peek();
      if (token.kind == TokenKind::end) {
        if (ends.size() == 0) return block;
        fail(fmt::format("unexpected end of template, expected '{}'", *(ends.end() - 1)));
      }
      if (token.kind == TokenKind::text) {
        Statement statement = begin(StatementKind::text);
        statement.text = take().text;
        block.push_back(std::move(statement));
      } else if (token.kind == TokenKind::variable_begin) {
        take();
        Statement statement = begin(StatementKind::output);
        statement.expression = tuple_or_expression();
        if (peek().kind != TokenKind::variable_end) fail(fmt::format("expected the end of the print statement, got {}", described(peek())));
        take();
        block.push_back(std::move(statement));
      } else {
        take();
        if (peek().kind == TokenKind::name && std::find(ends.begin(), ends.end(), peek().text) != ends.end()) return block;
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
    const std::string name = peek().kind == TokenKind::name ? peek().text : "";
    if (name == "if") return condition();
    if (name == "for") return loop();
    if (name == "set") return assignment();
    if (name == "macro") return macro();
    if (name == "call") return call_block();
    if (name == "filter") return filter_block();
    if (name == "with") return with_block();
    if (name == "generation") return generation();
    if (name == "break" || name == "continue") {
      Statement result = begin(name == "break" ? StatementKind::break_loop : StatementKind::continue_loop);
      take();
      expect_block_end();
      return result;
    }
    static constexpr std::array<std::string_view, 8> kElsewhere = {"include", "import", "from", "extends", "block", "autoescape", "trans", "do"};
    if (std::find(kElsewhere.begin(), kElsewhere.end(), name) != kElsewhere.end()) fail(fmt::format("the statement '{}' is not supported", name));
    fail(fmt::format("unknown statement {}", described(peek())));
  }

  Statement condition() {
    Statement result = begin(StatementKind::condition);
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
      if (peek().kind != TokenKind::name || is_name("in")) break;
      names.push_back(expect_identifier());
    }
    if (parenthesised) expect_op(")");
    return names;
  }

  Statement loop() {
    Statement result = begin(StatementKind::loop);
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
    Statement result = begin(StatementKind::assign);
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
    result.kind = StatementKind::assign_block;
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
    Statement result = begin(StatementKind::macro);
    take();
    result.text = expect_identifier();
    result.parameters = parameters();
    expect_block_end();
    result.body = statements({"endmacro"});
    take();
    if (peek().kind == TokenKind::name) take();
    expect_block_end();
    return result;
  }

  Statement call_block() {
    Statement result = begin(StatementKind::call_block);
    take();
    if (is_op("(")) result.parameters = parameters();
    result.expression = expression();
    if (result.expression->kind != ExpressionKind::call) fail("expected a call");
    expect_block_end();
    result.body = statements({"endcall"});
    take();
    expect_block_end();
    return result;
  }

  Statement filter_block() {
    Statement result = begin(StatementKind::filter_block);
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
    Statement result = begin(StatementKind::with_block);
    take();
    while (peek().kind != TokenKind::block_end) {
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
    Statement result = begin(StatementKind::generation);
    take();
    expect_block_end();
    result.body = statements({"endgeneration"});
    take();
    expect_block_end();
    return result;
  }

  // Expressions, from the loosest binding to the tightest -----------------------------------------------------------------------------------

  ExpressionPtr make(ExpressionKind kind, std::string text = "") const {
    auto result = std::make_unique<Expression>();
    result->kind = kind;
    result->line = peek().line;
    result->text = std::move(text);
    return result;
  }
  static ExpressionPtr joined(ExpressionPtr node, ExpressionPtr left, ExpressionPtr right) {
    node->operands.push_back(std::move(left));
    node->operands.push_back(std::move(right));
    return node;
  }

  bool ends_tuple() const {
    const TokenKind kind = peek().kind;
    return kind == TokenKind::block_end || kind == TokenKind::variable_end || is_op(")") || is_op("=");
  }

  /// An expression, or several with commas between: a tuple without parentheses.
  ExpressionPtr tuple_or_expression(bool with_condition = true) {
    const auto one = [&] { return with_condition ? expression() : logical_or(); };
    ExpressionPtr first = one();
    if (!is_op(",")) return first;
    ExpressionPtr tuple = make(ExpressionKind::tuple);
    tuple->operands.push_back(std::move(first));
    while (accept_op(",")) {
      if (ends_tuple() || is_name("if") || is_name("recursive")) break;
      tuple->operands.push_back(one());
    }
    return tuple;
  }

  ExpressionPtr expression() {
    const Depth depth(*this);
    ExpressionPtr value = logical_or();
    for (int links = 0; accept_name("if"); ++links) {
      check_chain(links);
      ExpressionPtr node = make(ExpressionKind::conditional);
      node->operands.push_back(std::move(value));
      node->operands.push_back(logical_or());
      node->operands.push_back(accept_name("else") ? expression() : nullptr);
      value = std::move(node);
    }
    return value;
  }

  ExpressionPtr logical_or() {
    ExpressionPtr left = logical_and();
    for (int links = 0; is_name("or"); ++links) {
      check_chain(links);
      ExpressionPtr node = make(ExpressionKind::logical, take().text);
      left = joined(std::move(node), std::move(left), logical_and());
    }
    return left;
  }

  ExpressionPtr logical_and() {
    ExpressionPtr left = logical_not();
    for (int links = 0; is_name("and"); ++links) {
      check_chain(links);
      ExpressionPtr node = make(ExpressionKind::logical, take().text);
      left = joined(std::move(node), std::move(left), logical_not());
    }
    return left;
  }

  ExpressionPtr logical_not() {
    if (!is_name("not")) return comparison();
    const Depth depth(*this);
    ExpressionPtr node = make(ExpressionKind::unary, take().text);
    node->operands.push_back(logical_not());
    return node;
  }

  std::string comparison_operator() {
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"})
      if (accept_op(op)) return std::string(op);
    if (accept_name("in")) return "in";
    if (!is_name("not") || !is_name("in", 1)) return "";
    take();
    take();
    return "not in";
  }

  ExpressionPtr comparison() {
    ExpressionPtr first = sum();
    ExpressionPtr node;
    for (std::string op = comparison_operator(); !op.empty(); op = comparison_operator()) {
      if (node == nullptr) {
        node = make(ExpressionKind::comparison);
        node->operands.push_back(std::move(first));
      }
      node->operators.push_back(std::move(op));
      node->operands.push_back(sum());
    }
    return node == nullptr ? std::move(first) : std::move(node);
  }

  template <class Next>
  ExpressionPtr left_associative(std::initializer_list<std::string_view> operators, const Next& next) {
    ExpressionPtr left = next();
    for (int links = 0; std::any_of(operators.begin(), operators.end(), [&](std::string_view op) { return is_op(op); }); ++links) {
      check_chain(links);
      ExpressionPtr node = make(ExpressionKind::binary, take().text);
      left = joined(std::move(node), std::move(left), next());
    }
    return left;
  }
  ExpressionPtr sum() {
    return left_associative({"+", "-"}, [&] { return concatenation(); });
  }
  ExpressionPtr concatenation() {
    return left_associative({"~"}, [&] { return product(); });
  }
  ExpressionPtr product() {
    return left_associative({"*", "/", "//", "%"}, [&] { return power(); });
  }
  ExpressionPtr power() {
    return left_associative({"**"}, [&] { return unary(/*with_filter=*/true); });
  }

  ExpressionPtr unary(bool with_filter) {
    const Depth depth(*this);
    ExpressionPtr value;
    if (is_op("-") || is_op("+")) {
      value = make(ExpressionKind::unary, take().text);
      value->operands.push_back(unary(/*with_filter=*/false));
    } else {
      value = primary();
    }
    value = postfix(std::move(value));
    return with_filter ? filters_and_tests(std::move(value)) : std::move(value);
  }

  ExpressionPtr primary() {
    const Token& token = peek();
    if (token.kind == TokenKind::name) return name();
    if (token.kind == TokenKind::string) {
      ExpressionPtr node = make(ExpressionKind::constant);
      std::string text;
      while (peek().kind == TokenKind::string) text += take().text;
      node->constant = Value(std::move(text));
      return node;
    }
    if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return number();
    if (is_op("(")) return parentheses();
    if (is_op("[")) return list();
    if (is_op("{")) return dict();
    fail(fmt::format("unexpected {}", described(token)));
  }

  ExpressionPtr name() {
    ExpressionPtr node = make(ExpressionKind::constant);
    const std::string text = take().text;
    if (text == "true" || text == "True") {
      node->constant = Value(true);
    } else if (text == "false" || text == "False") {
      node->constant = Value(false);
    } else if (text == "none" || text == "None") {
      node->constant = Value(None{});
    } else {
      node->kind = ExpressionKind::name;
      node->text = text;
    }
    return node;
  }

  ExpressionPtr number() {
    ExpressionPtr node = make(ExpressionKind::constant);
    const Token token = take();
    const char* end = token.text.data() + token.text.size();
    if (token.kind == TokenKind::real) {
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

  ExpressionPtr parentheses() {
    take();
    if (accept_op(")")) return make(ExpressionKind::tuple);
    ExpressionPtr inner = tuple_or_expression();
    expect_op(")");
    return inner;
  }

  ExpressionPtr list() {
    ExpressionPtr node = make(ExpressionKind::list);
    take();
    while (!is_op("]")) {
      if (!node->operands.empty()) expect_op(",");
      if (is_op("]")) break;
      node->operands.push_back(expression());
    }
    expect_op("]");
    return node;
  }

  ExpressionPtr dict() {
    ExpressionPtr node = make(ExpressionKind::dict);
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

  ExpressionPtr postfix(ExpressionPtr value) {
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

  ExpressionPtr attribute(ExpressionPtr object) {
    ExpressionPtr node = make(ExpressionKind::attribute);
    take();
    if (peek().kind == TokenKind::integer) {
      node->kind = ExpressionKind::subscript;
      return joined(std::move(node), std::move(object), number());
    }
    node->text = expect_identifier();
    node->operands.push_back(std::move(object));
    return node;
  }

  ExpressionPtr subscript(ExpressionPtr object) {
    ExpressionPtr node = make(ExpressionKind::subscript);
    take();
    ExpressionPtr first = is_op(":") ? nullptr : tuple_or_expression();
    if (!is_op(":")) {
      expect_op("]");
      return joined(std::move(node), std::move(object), std::move(first));
    }
    node->kind = ExpressionKind::slice;
    node = joined(std::move(node), std::move(object), std::move(first));
    for (int part = 0; part < 2; ++part) node->operands.push_back(accept_op(":") && !is_op(":") && !is_op("]") ? expression() : nullptr);
    expect_op("]");
    return node;
  }

  std::vector<Argument> arguments() {
    std::vector<Argument> list;
    expect_op("(");
    while (!is_op(")")) {
      if (!list.empty()) expect_op(",");
      if (is_op(")")) break;
      if (is_op("*") || is_op("**")) fail("argument unpacking is not supported");
      Argument argument;
      if (peek().kind == TokenKind::name && is_op("=", 1)) {
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

  ExpressionPtr call(ExpressionPtr callee) {
    ExpressionPtr node = make(ExpressionKind::call);
    node->operands.push_back(std::move(callee));
    node->arguments = arguments();
    return node;
  }

  ExpressionPtr filter(ExpressionPtr value) {
    ExpressionPtr node = make(ExpressionKind::filter);
    node->text = expect_identifier();
    node->operands.push_back(std::move(value));
    if (is_op("(")) node->arguments = arguments();
    return node;
  }

  /// "x is not divisibleby 3": an argument without parentheses binds like a primary.
  ExpressionPtr test(ExpressionPtr value) {
    const bool negated = accept_name("not");
    ExpressionPtr node = make(ExpressionKind::test);
    node->text = expect_identifier();
    node->operands.push_back(std::move(value));
    const TokenKind kind = peek().kind;
    const bool joins = is_name("else") || is_name("or") || is_name("and") || is_name("if") || is_name("in") || is_name("not");
    if (is_op("(")) {
      node->arguments = arguments();
    } else if (is_name("is")) {
      fail("tests cannot follow each other");
    } else if ((kind == TokenKind::name && !joins) || kind == TokenKind::string || kind == TokenKind::integer || kind == TokenKind::real ||
               is_op("[") || is_op("{")) {
      node->arguments.push_back({"", postfix(primary())});
    }
    if (!negated) return node;
    ExpressionPtr inverse = make(ExpressionKind::unary, "not");
    inverse->operands.push_back(std::move(node));
    return inverse;
  }

  ExpressionPtr filters_and_tests(ExpressionPtr value) {
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

  std::vector<Token> tokens_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

Block parse(std::string_view source) { return Parser(source).run(); }

}  // namespace tessera::data::jinja
