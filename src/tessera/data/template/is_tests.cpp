// What may follow "is" (https://jinja.palletsprojects.com/en/stable/templates/#builtin-tests).
#include <fmt/format.h>

#include <map>

#include "tessera/data/template/interpreter.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data::jinja {
namespace {

using Test = bool (*)(const Value& value, const Arguments& arguments);

const Value& operand(const Arguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError("the test needs an argument");
  return arguments.positional[0];
}

bool divisible(const Value& value, std::int64_t by) {
  if (by == 0) throw TemplateError("integer division or modulo by zero");
  return by == -1 || value.as_integer("a divisible value") % by == 0;
}

bool same_text(const Value& value, std::string (*convert)(std::string_view)) {
  const std::string text = to_text(value);
  return convert(text) == text && lowercase(text) != uppercase(text);
}

bool same_object(const Value& a, const Value& b) {
  // Small values that are equal and of one type are one object in Python; so are None, True and False.
  return a.data().index() == b.data().index() && equal(a, b);
}

const std::map<std::string_view, Test>& tests() {
  using V = Value;
  using A = Arguments;
  static const Test equals = [](const V& v, const A& a) { return equal(v, operand(a)); };
  static const std::map<std::string_view, Test> table = {
      {"boolean", [](const V& v, const A&) { return v.is_boolean(); }},
      {"callable", [](const V& v, const A&) { return v.callable() != nullptr; }},
      {"defined", [](const V& v, const A&) { return !v.is_undefined(); }},
      {"undefined", [](const V& v, const A&) { return v.is_undefined(); }},
      {"divisibleby", [](const V& v, const A& a) { return divisible(v, operand(a).as_integer("a divisor")); }},
      {"even", [](const V& v, const A&) { return divisible(v, 2); }},
      {"odd", [](const V& v, const A&) { return !divisible(v, 2); }},
      {"eq", equals},
      {"equalto", equals},
      {"ne", [](const V& v, const A& a) { return !equal(v, operand(a)); }},
      {"lt", [](const V& v, const A& a) { return less(v, operand(a)); }},
      {"lessthan", [](const V& v, const A& a) { return less(v, operand(a)); }},
      {"gt", [](const V& v, const A& a) { return less(operand(a), v); }},
      {"greaterthan", [](const V& v, const A& a) { return less(operand(a), v); }},
      {"le", [](const V& v, const A& a) { return less(v, operand(a)) || equal(v, operand(a)); }},
      {"ge", [](const V& v, const A& a) { return less(operand(a), v) || equal(v, operand(a)); }},
      {"true", [](const V& v, const A&) { return v.is_boolean() && truth(v); }},
      {"false", [](const V& v, const A&) { return v.is_boolean() && !truth(v); }},
      {"none", [](const V& v, const A&) { return v.is_none(); }},
      {"integer", [](const V& v, const A&) { return v.is_integer(); }},
      {"float", [](const V& v, const A&) { return v.is_real(); }},
      {"number", [](const V& v, const A&) { return v.is_number(); }},
      {"string", [](const V& v, const A&) { return v.string() != nullptr; }},
      {"mapping", [](const V& v, const A&) { return v.dict() != nullptr; }},
      {"sequence", [](const V& v, const A&) { return v.sequence() != nullptr || v.dict() != nullptr || v.string() != nullptr || v.is_undefined(); }},
      {"iterable", [](const V& v, const A&) { return v.sequence() != nullptr || v.dict() != nullptr || v.string() != nullptr || v.is_undefined(); }},
      {"in", [](const V& v, const A& a) { return contains(operand(a), v); }},
      {"sameas", [](const V& v, const A& a) { return same_object(v, operand(a)); }},
      {"lower", [](const V& v, const A&) { return same_text(v, lowercase); }},
      {"upper", [](const V& v, const A&) { return same_text(v, uppercase); }},
      {"escaped", [](const V&, const A&) { return false; }},
  };
  return table;
}

}  // namespace

bool Interpreter::test(std::string_view name, const Value& value, const Arguments& arguments) {
  const auto found = tests().find(name);
  if (found == tests().end()) throw TemplateError(fmt::format("no test named '{}'", name));
  if (!arguments.positional.empty()) charge(weight(value) + weight(arguments.positional[0]));
  return found->second(value, arguments);
}

}  // namespace tessera::data::jinja
