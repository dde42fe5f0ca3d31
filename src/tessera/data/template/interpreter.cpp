#include "tessera/data/template/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::data::jinja {
namespace {

constexpr std::size_t kMostWork = 300'000'000;
constexpr std::size_t kStep = 50;        // what one statement or evaluation counts
constexpr int kDeepestEvaluation = 600;  // evaluations within each other, macro calls included

Value undefined(std::string message) { return Undefined{std::move(message)}; }

/// What `loop` offers in a round of a for statement.
std::shared_ptr<Object> loop_object(const std::vector<Value>& items, std::size_t round, const std::shared_ptr<std::vector<Value>>& changed) {
  auto object = std::make_shared<Object>();
  object->type = "LoopContext";
  Dict& attributes = object->attributes;
  const auto add = [&](const char* name, Value value) { attributes.entries.emplace_back(name, std::move(value)); };
  add("index", Value::size(round + 1));
  add("index0", Value::size(round));
  add("revindex", Value::size(items.size() - round));
  add("revindex0", Value::size(items.size() - round - 1));
  add("first", round == 0);
  add("last", round + 1 == items.size());
  add("length", Value::size(items.size()));
  add("depth", Value::size(1));
  add("depth0", Value::size(0));
  add("previtem", round == 0 ? undefined("there is no previous item") : items[round - 1]);
  add("nextitem", round + 1 == items.size() ? undefined("there is no next item") : items[round + 1]);
  add("cycle", Callable{"cycle", [round](Interpreter&, const Arguments& arguments) {
                          if (arguments.positional.empty()) throw TemplateError("no items for cycling given");
                          return arguments.positional[round % arguments.positional.size()];
                        }});
  add("changed", Callable{"changed", [changed](Interpreter&, const Arguments& arguments) {
                            const Value now = Value::tuple(arguments.positional);
                            const bool differs = changed->empty() || !equal(changed->front(), now);
                            changed->assign(1, now);
                            return Value(differs);
                          }});
  return object;
}

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer)
    if (const auto found = scope->variables.find(name); found != scope->variables.end()) return &found->second;
  return nullptr;
}

void Interpreter::charge(std::size_t work) {
  work_ += work;
  if (work_ > kMostWork) throw TemplateError("the template does more work than is allowed");
}

void Interpreter::run(const Block& block, Scope& scope) { execute(block, scope, main_output_); }

Interpreter::Flow Interpreter::execute(const Block& block, Scope& scope, std::string& out) {
  for (const Statement& statement : block) {
    try {
      charge(kStep);
      if (const Flow flow = execute(statement, scope, out); flow != Flow::On) return flow;
    } catch (TemplateError& error) {
      if (error.line == 0) error.line = statement.line;
      throw;
    }
  }
  return Flow::On;
}

std::string Interpreter::text_of(const Block& block, Scope& scope) {
  std::string text;
  Scope inner{{}, &scope};
  execute(block, inner, text);
  return text;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, Scope& scope, std::string& out) {
  switch (statement.kind) {
    case StatementKind::Text:
      charge(statement.text.size());
      out += statement.text;
      break;
    case StatementKind::Output: {
      const std::string text = to_text(evaluate(*statement.expression, scope));
      charge(text.size());
      out += text;
      break;
    }
    case StatementKind::Condition:
      return execute(truth(evaluate(*statement.expression, scope)) ? statement.body : statement.otherwise, scope, out);
    case StatementKind::Loop:
      return loop(statement, scope, out);
    case StatementKind::Assign: {
      const Value value = evaluate(*statement.expression, scope);
      if (statement.text.empty())
        assign(statement.targets, value, scope);
      else
        assign_attribute(statement, value, scope);
      break;
    }
    case StatementKind::AssignBlock: {
      Value text = text_of(statement.body, scope);
      if (statement.filter != nullptr) text = apply_filter(*statement.filter, text, scope);
      if (statement.text.empty())
        assign(statement.targets, text, scope);
      else
        assign_attribute(statement, text, scope);
      break;
    }
    case StatementKind::Macro:
      scope.variables[statement.text] = macro(statement.text, statement, scope);
      break;
    case StatementKind::CallBlock: {
      const Expression& expression = *statement.expression;
      const Value callee = evaluate(*expression.operands[0], scope);
      Arguments arguments = evaluate_arguments(expression.arguments, scope);
      arguments.named.emplace_back("caller", macro("caller", statement, scope));
      out += to_text(call(callee, arguments));
      break;
    }
    case StatementKind::FilterBlock:
      out += to_text(apply_filter(*statement.expression, text_of(statement.body, scope), scope));
      break;
    case StatementKind::WithBlock: {
      Scope inner{{}, &scope};
      for (const auto& [name, expression] : statement.assignments) {
        Value value = evaluate(*expression, scope);
        inner.variables[name] = std::move(value);
      }
      return execute(statement.body, inner, out);
    }
    case StatementKind::Generation: {
      const std::string text = text_of(statement.body, scope);
      if (&out == &main_output_) generation_ranges_.emplace_back(out.size(), out.size() + text.size());
      out += text;
      break;
    }
    case StatementKind::BreakLoop:
      return Flow::BreakLoop;
    case StatementKind::ContinueLoop:
      return Flow::ContinueLoop;
  }
  return Flow::On;
}

Interpreter::Flow Interpreter::loop(const Statement& statement, Scope& scope, std::string& out) {
  std::vector<Value> items = elements(evaluate(*statement.expression, scope));
  charge(items.size());
  if (statement.filter != nullptr) {
    std::vector<Value> kept;
    for (const Value& item : items) {
      Scope inner{{}, &scope};
      assign(statement.targets, item, inner);
      if (truth(evaluate(*statement.filter, inner))) kept.push_back(item);
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    Scope inner{{}, &scope};
    return execute(statement.otherwise, inner, out);
  }
  const auto changed = std::make_shared<std::vector<Value>>();
  for (std::size_t round = 0; round < items.size(); ++round) {
    charge(5 * kStep);
    Scope inner{{}, &scope};
    inner.variables["loop"] = loop_object(items, round, changed);
    assign(statement.targets, items[round], inner);
    if (execute(statement.body, inner, out) == Flow::BreakLoop) break;
  }
  return Flow::On;
}

void Interpreter::assign(const std::vector<std::string>& targets, const Value& value, Scope& scope) {
  if (targets.size() == 1) {
    scope.variables[targets[0]] = value;
    return;
  }
  const std::vector<Value> items = elements(value);
  if (items.size() < targets.size())
    throw TemplateError(fmt::format("not enough values to unpack (expected {}, got {})", targets.size(), items.size()));
  if (items.size() > targets.size()) throw TemplateError(fmt::format("too many values to unpack (expected {})", targets.size()));
  for (std::size_t i = 0; i < targets.size(); ++i) scope.variables[targets[i]] = items[i];
}

void Interpreter::assign_attribute(const Statement& statement, const Value& value, Scope& scope) {
  const Value* target = scope.find(statement.targets[0]);
  Object* object = target == nullptr ? nullptr : target->object();
  if (object == nullptr || !object->assignable) throw TemplateError("cannot assign attribute on non-namespace object");
  if (statement.text.starts_with('_'))
    throw TemplateError(fmt::format("chat templates cannot store underscore-prefixed attributes on a namespace, but got '{}'", statement.text));
  nesting(value);  // refuses namespaces within namespaces
  object->attributes.set(statement.text, value);
}

Value Interpreter::macro(const std::string& name, const Statement& statement, Scope& scope) {
  // Macros see the variables around them as they are when the macro is called; the blocks around outlive every call.
  return Callable{name, [&statement, &scope](Interpreter& interpreter, const Arguments& arguments) {
                    return interpreter.call_macro(statement, scope, arguments);
                  }};
}

Value Interpreter::call_macro(const Statement& statement, Scope& scope, const Arguments& arguments) {
  Scope inner{{}, &scope};
  Dict surplus_named;
  const auto& parameters = statement.parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const Value* given = arguments.find(parameter.name, i);
    Value value = given != nullptr                ? *given
                  : parameter.fallback != nullptr ? evaluate(*parameter.fallback, inner)
                                                  : undefined(fmt::format("parameter '{}' was not provided", parameter.name));
    inner.variables[parameter.name] = std::move(value);
  }
  for (const auto& [name, value] : arguments.named) {
    const bool known = std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& parameter) { return parameter.name == name; });
    if (name == "caller") inner.variables["caller"] = value;
    if (!known && name != "caller") surplus_named.set(name, value);
  }
  const std::size_t taken = std::min(parameters.size(), arguments.positional.size());
  inner.variables["varargs"] = Value::tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(taken), arguments.positional.end()});
  inner.variables["kwargs"] = Value(std::move(surplus_named));
  std::string text;
  execute(statement.body, inner, text);
  return text;
}

Arguments Interpreter::evaluate_arguments(const std::vector<Argument>& arguments, Scope& scope) {
  Arguments result;
  for (const Argument& argument : arguments) {
    Value value = evaluate(*argument.value, scope);
    if (argument.name.empty())
      result.positional.push_back(std::move(value));
    else
      result.named.emplace_back(argument.name, std::move(value));
  }
  return result;
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  charge(1);
  if (callee.is_undefined()) throw TemplateError(std::get<Undefined>(callee.data()).message);
  if (const Callable* callable = callee.callable()) return callable->call(*this, arguments);
  throw TemplateError(fmt::format("'{}' object is not callable", type_name(callee)));
}

Value Interpreter::evaluate(const Expression& expression, Scope& scope) {
  if (++depth_ > kDeepestEvaluation) throw TemplateError("the template calls itself too deeply", expression.line);
  charge(kStep);
  try {
    Value value = evaluate_kind(expression, scope);
    --depth_;
    return value;
  } catch (TemplateError& error) {
    if (error.line == 0) error.line = expression.line;
    throw;
  }
}

Value Interpreter::evaluate_kind(const Expression& expression, Scope& scope) {
  const auto operand = [&](std::size_t i) {
    return i < expression.operands.size() && expression.operands[i] != nullptr ? evaluate(*expression.operands[i], scope) : Value(None{});
  };
  switch (expression.kind) {
    case ExpressionKind::Constant:
      return expression.constant;
    case ExpressionKind::Name:
      return name(expression, scope);
    case ExpressionKind::List:
    case ExpressionKind::Tuple:
    case ExpressionKind::Dict:
      return collection(expression, scope);
    case ExpressionKind::Attribute:
      return attribute(operand(0), expression.text);
    case ExpressionKind::Subscript: {
      const Value object = operand(0);
      if (object.string() != nullptr) charge(weight(object));
      return subscript(object, operand(1));
    }
    case ExpressionKind::Slice: {
      const Value object = operand(0);
      if (!object.is_undefined()) charge(length(object));
      return slice(object, operand(1), operand(2), operand(3));
    }
    case ExpressionKind::Call: {
      const Value callee = operand(0);
      return call(callee, evaluate_arguments(expression.arguments, scope));
    }
    case ExpressionKind::Filter:
      return apply_filter(expression, operand(0), scope);
    case ExpressionKind::Test: {
      const Value value = operand(0);
      return test(expression.text, value, evaluate_arguments(expression.arguments, scope));
    }
    case ExpressionKind::Unary:
      return unary(expression, scope);
    case ExpressionKind::Binary:
      return binary(expression, scope);
    case ExpressionKind::Logical: {
      Value left = operand(0);
      return truth(left) == (expression.text == "or") ? left : operand(1);
    }
    case ExpressionKind::Comparison:
      return comparison(expression, scope);
    case ExpressionKind::Conditional: {
      if (truth(operand(1))) return operand(0);
      if (expression.operands[2] == nullptr) return undefined("the inline if-expression evaluated to false and no else section was defined");
      return operand(2);
    }
  }
  return None{};
}

Value Interpreter::name(const Expression& expression, Scope& scope) {
  if (const Value* value = scope.find(expression.text)) return *value;
  if (const Value* function = global_function(expression.text)) return *function;
  return undefined(fmt::format("'{}' is undefined", expression.text));
}

Value Interpreter::collection(const Expression& expression, Scope& scope) {
  std::vector<Value> items;
  for (const ExpressionPtr& operand : expression.operands) items.push_back(evaluate(*operand, scope));
  charge(items.size());
  if (expression.kind == ExpressionKind::List) return Value::list(std::move(items));
  if (expression.kind == ExpressionKind::Tuple) return Value::tuple(std::move(items));
  Dict dict;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) dict.set(items[i], items[i + 1]);
  return dict;
}

/// A block's filters have no value of their own: the innermost one takes the block's text.
Value Interpreter::apply_filter(const Expression& expression, const Value& value, Scope& scope) {
  const Expression* inner = expression.operands[0].get();
  const bool chained = inner != nullptr && inner->kind == ExpressionKind::Filter && inner->operands[0] == nullptr;
  const Value input = chained ? apply_filter(*inner, value, scope) : value;
  return filter(expression.text, input, evaluate_arguments(expression.arguments, scope));
}

Value Interpreter::unary(const Expression& expression, Scope& scope) {
  const Value value = evaluate(*expression.operands[0], scope);
  if (expression.text == "not") return !truth(value);
  if (value.is_undefined()) throw TemplateError(std::get<Undefined>(value.data()).message);
  if (!value.is_number()) throw TemplateError(fmt::format("bad operand type for unary {}: '{}'", expression.text, type_name(value)));
  if (expression.text == "+") return value.is_boolean() ? Value(value.as_integer("")) : value;
  return value.is_real() ? Value(-value.as_real()) : arithmetic("-", std::int64_t{0}, value);
}

Value Interpreter::binary(const Expression& expression, Scope& scope) {
  const Value left = evaluate(*expression.operands[0], scope);
  const Value right = evaluate(*expression.operands[1], scope);
  // "ab" * n is as large as it says: count it before it is made.
  const bool repeats = expression.text == "*" && !(left.is_number() && right.is_number());
  if (repeats) {
    const Value& times = left.is_number() ? left : right;
    const Value& repeated = left.is_number() ? right : left;
    const std::size_t unit = repeated.string() != nullptr     ? repeated.string()->size()
                             : repeated.sequence() != nullptr ? repeated.sequence()->items.size()
                                                              : 0;
    if (times.is_integer() && times.as_integer("") > 0) {
      const std::size_t each = repeated.string() != nullptr ? unit : unit * kStep;
      const auto count = static_cast<std::size_t>(times.as_integer(""));
      charge(each == 0 ? 0 : count > kMostWork / each ? kMostWork + 1 : count * each);
    }
  }
  Value result = arithmetic(expression.text, left, right);
  if (const std::string* text = result.string(); text != nullptr && !repeats) charge(text->size());
  if (result.sequence() != nullptr && !repeats) charge(cost(result));
  return result;
}

Value Interpreter::comparison(const Expression& expression, Scope& scope) {
  Value left = evaluate(*expression.operands[0], scope);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    const Value right = evaluate(*expression.operands[i + 1], scope);
    const std::string& op = expression.operators[i];
    charge(weight(left) + weight(right));
    const bool holds = op == "=="   ? equal(left, right)
                       : op == "!=" ? !equal(left, right)
                       : op == "in" ? contains(right, left)
                       : op == "<"  ? less(left, right)
                       : op == ">"  ? less(right, left)
                       : op == "<=" ? less(left, right) || equal(left, right)
                       : op == ">=" ? less(right, left) || equal(left, right)
                                    : !contains(right, left);
    if (!holds) return false;
    left = right;
  }
  return true;
}

}  // namespace tessera::data::jinja
