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
  Constant,     ///< `constant`
  Name,         ///< `text`
  List,         ///< `operands`
  Tuple,        ///< `operands`
  Dict,         ///< `operands`: key, value, key, value, …
  Attribute,    ///< operands[0] . `text`
  Subscript,    ///< operands[0] [ operands[1] ]
  Slice,        ///< operands[0] [ operands[1] : operands[2] : operands[3] ], any of the three null
  Call,         ///< operands[0] ( `arguments` )
  Filter,       ///< operands[0] | `text` ( `arguments` ); operands[0] is null for the filter of a block
  Test,         ///< operands[0] is `text` ( `arguments` )
  Unary,        ///< `text` operands[0]: "-", "+", "not"
  Binary,       ///< operands[0] `text` operands[1]: arithmetic and "~"
  Logical,      ///< operands[0] `text` operands[1]: "and", "or"
  Comparison,   ///< operands[0] `operators`[0] operands[1] `operators`[1] operands[2] …
  Conditional,  ///< operands[0] if operands[1] else operands[2] (null without else)
};

struct Expression {
  ExpressionKind kind = ExpressionKind::Constant;
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
  Text,         ///< `text`
  Output,       ///< `expression`
  Condition,    ///< if `expression` `body` else `otherwise` (an elif is a condition in there)
  Loop,         ///< for `targets` in `expression` if `filter` `body` else `otherwise`
  Assign,       ///< set `targets` = `expression`; with `text` the attribute of a namespace
  AssignBlock,  ///< set `targets` to the text of `body`, after `filter` (null: none)
  Macro,        ///< macro `text` ( `parameters` ) `body`
  CallBlock,    ///< call ( `parameters` ) `expression` `body`
  FilterBlock,  ///< the text of `body` through `expression`
  WithBlock,    ///< with `assignments` `body`
  Generation,   ///< `body`, marked as what the assistant says
  BreakLoop,
  ContinueLoop,
};

struct Statement {
  StatementKind kind = StatementKind::Text;
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
