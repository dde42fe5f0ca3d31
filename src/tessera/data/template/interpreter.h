#pragma once

#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/data/template/ast.h"
#include "tessera/data/template/value.h"

namespace tessera::data::jinja {

/// Variables of one block and, behind it, those of the blocks around it.
struct Scope {
  std::map<std::string, Value, std::less<>> variables;
  const Scope* outer = nullptr;

  const Value* find(std::string_view name) const;
};

/// Runs parsed templates. Templates come from strangers, so work, output and depth are limited: TemplateError beyond.
class Interpreter {
 public:
  /// `now`: what strftime_now formats. `main_output`: where the text goes; marks of generation blocks are byte ranges of it.
  Interpreter(std::tm now, std::string& main_output) : now_(now), main_output_(main_output) {}

  void run(const Block& block, Scope& scope);
  const std::vector<std::pair<std::size_t, std::size_t>>& generation_ranges() const { return generation_ranges_; }

  Value evaluate(const Expression& expression, Scope& scope);
  Value call(const Value& callee, const Arguments& arguments);
  Value filter(std::string_view name, const Value& value, const Arguments& arguments);
  bool test(std::string_view name, const Value& value, const Arguments& arguments);

  /// Counts work: about one unit for each step, and for each byte or element made.
  void charge(std::size_t work);
  const std::tm& now() const { return now_; }

 private:
  enum class Flow { On, BreakLoop, ContinueLoop };

  Flow execute(const Block& block, Scope& scope, std::string& out);
  Flow execute(const Statement& statement, Scope& scope, std::string& out);
  Flow loop(const Statement& statement, Scope& scope, std::string& out);
  std::string text_of(const Block& block, Scope& scope);
  void assign(const std::vector<std::string>& targets, const Value& value, Scope& scope);
  void assign_attribute(const Statement& statement, const Value& value, Scope& scope);
  Value macro(const std::string& name, const Statement& statement, Scope& scope);
  Value call_macro(const Statement& statement, Scope& scope, const Arguments& arguments);
  Arguments evaluate_arguments(const std::vector<Argument>& arguments, Scope& scope);
  Value apply_filter(const Expression& expression, const Value& value, Scope& scope);
  Value name(const Expression& expression, Scope& scope);
  Value binary(const Expression& expression, Scope& scope);
  Value unary(const Expression& expression, Scope& scope);
  Value comparison(const Expression& expression, Scope& scope);
  Value collection(const Expression& expression, Scope& scope);
  Value evaluate_kind(const Expression& expression, Scope& scope);

  std::tm now_;
  std::string& main_output_;
  std::vector<std::pair<std::size_t, std::size_t>> generation_ranges_;
  std::size_t work_ = 0;
  int depth_ = 0;
};

// The parts of the language that need no interpreter state, each in its own file.

/// a.name, methods and dict entries; undefined when there is neither. TemplateError for what the sandbox forbids.
Value attribute(const Value& object, const std::string& name);
/// a[key]; undefined when there is no such element.
Value subscript(const Value& object, const Value& key);
/// a[start:stop:step]; undefined or none parts count as absent.
Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);
/// Arithmetic and "~", with Python's meaning and messages.
Value arithmetic(const std::string& op, const Value& left, const Value& right);
bool contains(const Value& container, const Value& item);
/// A method of a str, dict, list or tuple, ready to be called; undefined when the type has none of that name.
Value method(const Value& object, const std::string& name);
/// range, dict, namespace, raise_exception, strftime_now, …; nullptr when there is no such function.
const Value* global_function(std::string_view name);
/// The printf-style formatting of "…" % values.
std::string percent_format(const std::string& format, const Value& values);

}  // namespace tessera::data::jinja
