#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/data/template/value.h"

/// A template after parsing: statements and expressions as plain data.
namespace tessera::data::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Argument {
  std::string name;  ///< "" for a positional one
  ExpressionPtr value;
};

enum class ExpressionKind {
  constant,     ///< `constant`
  name,         ///< `text`
  list,         ///< `operands`
  tuple,        ///< `operands`
  dict,         ///< `operands`: key, value, key, value, …
  attribute,    ///< operands[0] . `text`
  subscript,    ///< operands[0] [ operands[1] ]
  slice,        ///< operands[0] [ operands[1] : operands[2] : operands[3] ], any of the three null
  call,         ///< operands[0] ( `arguments` )
  filter,       ///< operands[0] | `text` ( `arguments` ); operands[0] is null for the filter of a block
  test,         ///< operands[0] is `text` ( `arguments` )
  unary,        ///< `text` operands[0]: "-", "+", "not"
  binary,       ///< operands[0] `text` operands[1]: arithmetic and "~"
  logical,      ///< operands[0] `text` operands[1]: "and", "or"
  comparison,   ///< operands[0] `operators`[0] operands[1] `operators`[1] operands[2] …
  conditional,  ///< operands[0] if operands[1] else operands[2] (null without else)
};

struct Expression {
  ExpressionKind kind = ExpressionKind::constant;
  int line = 0;
  std::string text;
  Value constant;
  std::vector<ExpressionPtr> operands;
  std::vector<Argument> arguments;
  std::vector<std::string> operators;
};

struct Statement;
using Block = std::vector<Statement>;

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  ///< null: none
};

enum class StatementKind {
  text,          ///< `text`
  output,        ///< `expression`
  condition,     ///< if `expression` `body` else `otherwise` (an elif is a condition in there)
  loop,          ///< for `targets` in `expression` if `filter` `body` else `otherwise`
  assign,        ///< set `targets` = `expression`; with `text` the attribute of a namespace
  assign_block,  ///< set `targets` to the text of `body`, after `filter` (null: none)
  macro,         ///< macro `text` ( `parameters` ) `body`
  call_block,    ///< call ( `parameters` ) `expression` `body`
  filter_block,  ///< the text of `body` through `expression`
  with_block,    ///< with `assignments` `body`
  generation,    ///< `body`, marked as what the assistant says
  break_loop,
  continue_loop,
};

struct Statement {
  StatementKind kind = StatementKind::text;
  int line = 0;
  std::string text;
  std::vector<std::string> targets;
  ExpressionPtr expression;
  ExpressionPtr filter;
  std::vector<Parameter> parameters;
  std::vector<std::pair<std::string, ExpressionPtr>> assignments;
  Block body;
  Block otherwise;
};

/// Parses a template. TemplateError with the line for mistakes and for statements that are not supported (named).
Block parse(std::string_view source);

}  // namespace tessera::data::jinja
