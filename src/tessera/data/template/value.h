#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/core/json.h"

/// The values a template computes with: Python's, as far as Jinja templates see them.
namespace tessera::data::jinja {

/// Anything wrong in a template or in what it does; `line` is filled in by the statement it happens in.
class TemplateError : public std::runtime_error {
 public:
  explicit TemplateError(const std::string& message, int line = 0) : std::runtime_error(message), line(line) {}
  int line;
};

class Value;
class Interpreter;

struct Undefined {
  std::string message;  ///< "'x' is undefined": what an error says when the value is used
};
struct None {};
struct Sequence {
  std::vector<Value> items;
  bool tuple = false;
  int nesting = 0;         ///< how many sequences and dicts lie within each other
  std::size_t weight = 0;  ///< bytes and elements of all within
};
/// Keeps the order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int nesting = 0;
  std::size_t weight = 0;
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
};
/// Something with attributes only: a namespace (whose attributes may be set) or `loop`.
struct Object {
  std::string type;
  Dict attributes;
  bool assignable = false;
};
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument by name or else at this position; nullptr when it was not given.
  const Value* find(std::string_view name, std::size_t position) const;
};
struct Callable {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>, std::shared_ptr<const Sequence>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Object>, std::shared_ptr<const Callable>>;

  Value() : data_(Undefined{"a value is undefined"}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}                                 // NOLINT: values convert from what they hold
  Value(None) : data_(None{}) {}                                                              // NOLINT
  Value(bool value) : data_(value) {}                                                         // NOLINT
  Value(std::int64_t value) : data_(value) {}                                                 // NOLINT
  Value(double value) : data_(value) {}                                                       // NOLINT
  Value(std::string value) : data_(std::make_shared<const std::string>(std::move(value))) {}  // NOLINT
  Value(std::string_view value) : Value(std::string(value)) {}                                // NOLINT
  Value(const char* value) : Value(std::string(value)) {}                                     // NOLINT
  Value(Dict value);                                                                    // NOLINT: TemplateError when nested too deep or too large
  Value(std::shared_ptr<Object> value) : data_(std::move(value)) {}                     // NOLINT
  Value(Callable value) : data_(std::make_shared<const Callable>(std::move(value))) {}  // NOLINT
  /// TemplateError when nested too deep or too large, or when a namespace or function is among the items.
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value size(std::size_t value) { return Value(static_cast<std::int64_t>(value)); }
  static Value from_json(const OrderedJson& json);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_boolean() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(data_); }
  bool is_real() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_boolean() || is_integer() || is_real(); }
  // nullptr for values of another kind.
  const std::string* string() const;
  const Sequence* sequence() const;
  const Dict* dict() const;
  Object* object() const;
  const Callable* callable() const;
  const Data& data() const { return data_; }

  /// Of booleans, integers and reals.
  double as_real() const;
  /// Of booleans and integers; TemplateError with `what` otherwise.
  std::int64_t as_integer(std::string_view what) const;

 private:
  explicit Value(Data data) : data_(std::move(data)) {}
  Data data_;
};

/// How deep the value is nested. TemplateError for namespaces and `loop`, which could form cycles when stored in other values, and for functions: a
/// macro must not outlive the block it was defined in.
int nesting(const Value& value);
/// What writing or comparing the value costs: bytes and elements of all within.
std::size_t weight(const Value& value);
/// What making the value costs: its weight, and memory for its elements.
std::size_t cost(const Value& value);
/// TemplateError for a text larger than a template may make at once.
void check_text_size(std::size_t num_bytes);

bool truth(const Value& value);
/// Python's ==: numbers compare across types, sequences and dicts element by element.
bool equal(const Value& a, const Value& b);
/// Python's <; TemplateError for values that have no order.
bool less(const Value& a, const Value& b);
/// Python's name of the value's type: "str", "list", "NoneType".
std::string type_name(const Value& value);

/// What iterating yields: elements, keys, characters. TemplateError for what cannot be iterated, and for texts of more than 4 MB.
std::vector<Value> elements(const Value& value);
/// Python's len; TemplateError for what has none.
std::size_t length(const Value& value);

/// Python's str() and repr().
std::string to_text(const Value& value);
std::string to_repr(const Value& value);
std::string real_to_text(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  int indent = -1;  ///< −1: on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
/// Python's json.dumps. TemplateError for values that JSON has no word for.
std::string to_json(const Value& value, const JsonStyle& style);

}  // namespace tessera::data::jinja
