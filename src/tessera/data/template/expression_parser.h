#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "tessera/data/template/ast.h"
#include "tessera/data/template/token_cursor.h"

namespace tessera::data::jinja {

/// Expressions by recursive descent, a function per level of binding from the loosest to the tightest.
class ExpressionParser : public TokenCursor {
 public:
  using TokenCursor::TokenCursor;

 protected:
  /// An expression, or several with commas between: a tuple without parentheses.
  ExpressionPtr tuple_or_expression(bool with_condition = true);
  ExpressionPtr expression();
  ExpressionPtr filter(ExpressionPtr value);

 private:
  ExpressionPtr make(ExpressionKind kind, std::string text = "") const;
  static ExpressionPtr joined(ExpressionPtr node, ExpressionPtr left, ExpressionPtr right);
  bool ends_tuple() const;
  ExpressionPtr logical_or();
  ExpressionPtr logical_and();
  ExpressionPtr logical_not();
  std::string comparison_operator();
  ExpressionPtr comparison();
  template <class Next>
  ExpressionPtr left_associative(std::initializer_list<std::string_view> operators, const Next& next);
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filter);
  ExpressionPtr primary();
  ExpressionPtr name();
  ExpressionPtr number();
  ExpressionPtr parentheses();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr attribute(ExpressionPtr object);
  ExpressionPtr subscript(ExpressionPtr object);
  std::vector<Argument> arguments();
  ExpressionPtr call(ExpressionPtr callee);
  /// "x is not divisibleby 3": an argument without parentheses binds like a primary.
  ExpressionPtr test(ExpressionPtr value);
  ExpressionPtr filters_and_tests(ExpressionPtr value);
};

}  // namespace tessera::data::jinja
