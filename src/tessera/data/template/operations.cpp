// Attributes, subscripts, slices and arithmetic, with Python's meaning and Python's messages.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "tessera/data/template/interpreter.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data::jinja {
namespace {

constexpr std::int64_t kLargestExponent = 10'000;

[[noreturn]] void fail_undefined(const Value& value) { throw TemplateError(std::get<Undefined>(value.data()).message); }

std::string described(const Value& value) {
  if (value.is_none()) return "None";
  return type_name(value) + " object";
}

/// Python's remainder has the divisor's sign.
double remainder_of(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

Value integer_arithmetic(const std::string& op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  if (op == "+") overflow = __builtin_add_overflow(a, b, &result);
  if (op == "-") overflow = __builtin_sub_overflow(a, b, &result);
  if (op == "*") overflow = __builtin_mul_overflow(a, b, &result);
  if (op == "//" || op == "%") {
    if (b == 0) throw TemplateError("integer division or modulo by zero");
    if (a == std::numeric_limits<std::int64_t>::min() && b == -1) throw TemplateError("integers beyond 64 bits are not supported");
    const std::int64_t quotient = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
    result = op == "//" ? quotient : a - quotient * b;
  }
  if (op == "**") {
    if (b > kLargestExponent) throw TemplateError("integers beyond 64 bits are not supported");
    result = 1;
    for (std::int64_t i = 0; i < b && !overflow; ++i) overflow = __builtin_mul_overflow(result, a, &result);
  }
  if (overflow) throw TemplateError("integers beyond 64 bits are not supported");
  return result;
}

Value number_arithmetic(const std::string& op, const Value& left, const Value& right) {
  const bool real = left.is_real() || right.is_real() || op == "/" || (op == "**" && right.as_integer("an exponent") < 0);
  if (!real) return integer_arithmetic(op, left.as_integer(""), right.as_integer(""));
  const double a = left.as_real();
  const double b = right.as_real();
  if ((op == "/" || op == "//" || op == "%") && b == 0) throw TemplateError("division by zero");
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "/") return a / b;
  if (op == "//") return std::floor(a / b);
  if (op == "%") return remainder_of(a, b);
  return std::pow(a, b);
}

std::vector<Value> joined(const std::vector<Value>& a, const std::vector<Value>& b) {
  std::vector<Value> items = a;
  items.insert(items.end(), b.begin(), b.end());
  return items;
}

std::optional<Value> repeated(const Value& left, const Value& right) {
  const Value& what = left.is_number() ? right : left;
  const Value& times = left.is_number() ? left : right;
  if (times.is_real() || !times.is_number()) return std::nullopt;
  const std::int64_t count = std::max<std::int64_t>(0, times.as_integer(""));
  if (const std::string* text = what.string()) {
    std::string result;
    for (std::int64_t i = 0; i < count; ++i) result += *text;
    return Value(std::move(result));
  }
  const Sequence* sequence = what.sequence();
  if (sequence == nullptr) return std::nullopt;
  std::vector<Value> items;
  for (std::int64_t i = 0; i < count; ++i) items.insert(items.end(), sequence->items.begin(), sequence->items.end());
  return sequence->tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value added(const Value& left, const Value& right) {
  if (left.string() != nullptr) {
    if (right.string() != nullptr) return *left.string() + *right.string();
    throw TemplateError(fmt::format("can only concatenate str (not \"{}\") to str", type_name(right)));
  }
  if (left.sequence() != nullptr) {
    const bool tuple = left.sequence()->tuple;
    if (right.sequence() == nullptr || right.sequence()->tuple != tuple)
      throw TemplateError(fmt::format("can only concatenate {0} (not \"{1}\") to {0}", type_name(left), type_name(right)));
    std::vector<Value> items = joined(left.sequence()->items, right.sequence()->items);
    return tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
  }
  throw TemplateError(fmt::format("unsupported operand type(s) for +: '{}' and '{}'", type_name(left), type_name(right)));
}

/// Byte offset of the character at `index`, at most the text's length.
std::size_t byte_offset(const std::string& text, std::int64_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += code_point_at(text, at).num_bytes;
  return at;
}

/// Where a slice begins and ends, as Python's slice.indices.
struct SliceRange {
  std::int64_t start, stop, step;
};
SliceRange slice_range(std::int64_t size, const Value& start, const Value& stop, const Value& step) {
  const auto part = [](const Value& value, const char* what) {
    return value.is_none() || value.is_undefined() ? std::nullopt : std::optional(value.as_integer(what));
  };
  SliceRange range{0, size, part(step, "a slice step").value_or(1)};
  if (range.step == 0) throw TemplateError("slice step cannot be zero");
  const std::int64_t low = range.step > 0 ? 0 : -1;
  const std::int64_t high = range.step > 0 ? size : size - 1;
  const auto clamped = [&](std::int64_t value) { return std::clamp(value < 0 ? value + size : value, low, high); };
  const auto from = part(start, "a slice start");
  const auto to = part(stop, "a slice stop");
  range.start = from ? clamped(*from) : range.step > 0 ? low : high;
  range.stop = to ? clamped(*to) : range.step > 0 ? high : low;
  return range;
}

}  // namespace

Value attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) fail_undefined(object);
  if (name.starts_with("__")) throw TemplateError(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  if (const Object* held = object.object()) {
    const Value* value = held->attributes.find(std::string_view(name));
    return value != nullptr ? *value : Value(Undefined{fmt::format("'{} object' has no attribute '{}'", held->type, name)});
  }
  if (Value found = method(object, name); !found.is_undefined()) return found;
  if (const Dict* dict = object.dict())
    if (const Value* value = dict->find(std::string_view(name))) return *value;
  return Undefined{fmt::format("'{}' has no attribute '{}'", described(object), name)};
}

Value subscript(const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object);
  if (const Dict* dict = object.dict())
    if (const Value* value = dict->find(key)) return *value;
  if (key.is_integer() && (object.sequence() != nullptr || object.string() != nullptr)) {
    const auto size = static_cast<std::int64_t>(length(object));
    const std::int64_t index = key.as_integer("") < 0 ? key.as_integer("") + size : key.as_integer("");
    if (index >= 0 && index < size) {
      if (const Sequence* sequence = object.sequence()) return sequence->items[static_cast<std::size_t>(index)];
      const std::size_t at = byte_offset(*object.string(), index);
      return object.string()->substr(at, code_point_at(*object.string(), at).num_bytes);
    }
  }
  if (key.string() != nullptr) return attribute(object, *key.string());
  return Undefined{fmt::format("{} has no element {}", described(object), to_repr(key))};
}

Value slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.string() == nullptr && object.sequence() == nullptr)
    throw TemplateError(fmt::format("'{}' object is not subscriptable", type_name(object)));
  const SliceRange range = slice_range(static_cast<std::int64_t>(length(object)), start, stop, step);
  if (object.string() != nullptr && range.step == 1) {
    const std::size_t begin = byte_offset(*object.string(), range.start);
    const std::size_t end = byte_offset(*object.string(), range.stop);
    return begin < end ? object.string()->substr(begin, end - begin) : std::string();
  }
  const std::vector<Value> items = elements(object);
  std::vector<Value> part;
  for (std::int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop;) {
    part.push_back(items[static_cast<std::size_t>(i)]);
    if (__builtin_add_overflow(i, range.step, &i)) break;
  }
  if (const Sequence* sequence = object.sequence()) return sequence->tuple ? Value::tuple(std::move(part)) : Value::list(std::move(part));
  std::string text;
  for (const Value& character : part) text += *character.string();
  return text;
}

Value arithmetic(const std::string& op, const Value& left, const Value& right) {
  if (op == "~") return to_text(left) + to_text(right);
  if (op == "%" && left.string() != nullptr) return percent_format(*left.string(), right);
  for (const Value* value : {&left, &right})
    if (value->is_undefined()) fail_undefined(*value);
  if (left.is_number() && right.is_number()) return number_arithmetic(op, left, right);
  if (op == "+") return added(left, right);
  if (op == "*")
    if (auto result = repeated(left, right)) return *result;
  throw TemplateError(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", op, type_name(left), type_name(right)));
}

bool contains(const Value& container, const Value& item) {
  if (const std::string* text = container.string()) {
    if (item.is_undefined()) fail_undefined(item);
    if (item.string() == nullptr) throw TemplateError(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    return text->find(*item.string()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item) != nullptr;
  if (container.sequence() == nullptr && !container.is_undefined())
    throw TemplateError(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  const std::vector<Value> items = elements(container);
  return std::any_of(items.begin(), items.end(), [&](const Value& candidate) { return equal(candidate, item); });
}

namespace {

constexpr std::size_t kWidestFormat = 1024;

/// What stands between % and the letter: flags, width and precision.
std::string padded_text(const std::string& text, const std::string& spec) {
  const std::size_t digits = std::min(spec.find_first_of("123456789."), spec.size());
  std::size_t width = 0, shown = std::string::npos;
  const char* at = spec.data() + digits;
  const char* const end = spec.data() + spec.size();
  at = std::from_chars(at, end, width).ptr;
  if (at != end && *at == '.') std::from_chars(at + 1, end, shown = 0);
  if (width > kWidestFormat) throw TemplateError("a format this wide is not supported");
  std::size_t bytes = 0, characters = 0;
  for (; bytes < text.size() && characters < shown; ++characters) bytes += code_point_at(text, bytes).num_bytes;
  const std::string padding(width - std::min(width, characters), ' ');
  const bool left = spec.substr(0, digits).find('-') != std::string::npos;
  return left ? text.substr(0, bytes) + padding : padding + text.substr(0, bytes);
}

template <class Number>
std::string printed(const std::string& format, Number number) {
  std::array<char, kWidestFormat> buffer{};
  const int size = std::snprintf(buffer.data(), buffer.size(), format.c_str(), number);
  if (size < 0 || size >= static_cast<int>(buffer.size())) throw TemplateError("a format this wide is not supported");
  return buffer.data();
}

std::string formatted(const Value& argument, const std::string& spec, char kind) {
  switch (kind) {
    case 's':
    case 'r':
      return padded_text(kind == 's' ? to_text(argument) : to_repr(argument), spec);
    case 'd':
    case 'i':
    case 'x':
    case 'X':
    case 'o': {
      if (argument.is_real() && !(std::abs(argument.as_real()) < 9e18)) throw TemplateError("integers beyond 64 bits are not supported");
      const std::int64_t number = argument.is_real() ? static_cast<std::int64_t>(argument.as_real()) : argument.as_integer("%d");
      return printed("%" + spec + "l" + kind, static_cast<long>(number));
    }
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
      if (!argument.is_number()) throw TemplateError(fmt::format("must be real number, not {}", type_name(argument)));
      return printed("%" + spec + kind, argument.as_real());
    default:
      throw TemplateError(fmt::format("the format %{}{} is not supported", spec, kind));
  }
}

/// The arguments of a format, one after the other or, of a mapping, by name.
class FormatArguments {
 public:
  explicit FormatArguments(const Value& values) : values_(values), tuple_(values.sequence() != nullptr && values.sequence()->tuple) {}
  const Value& next() {
    if (next_ >= (tuple_ ? values_.sequence()->items.size() : 1)) throw TemplateError("not enough arguments for format string");
    return tuple_ ? values_.sequence()->items[next_++] : (++next_, values_);
  }
  const Value& named(const std::string& name) const {
    if (values_.dict() == nullptr) throw TemplateError("format requires a mapping");
    const Value* found = values_.dict()->find(Value(name));
    return found != nullptr ? *found : throw TemplateError(fmt::format("the mapping has no '{}'", name));
  }
  void expect_done() const {
    const std::size_t count = tuple_ ? values_.sequence()->items.size() : (values_.dict() != nullptr ? 0 : 1);
    if (next_ < count) throw TemplateError("not all arguments converted during string formatting");
  }

 private:
  const Value& values_;
  bool tuple_;
  std::size_t next_ = 0;
};

}  // namespace

std::string percent_format(const std::string& format, const Value& values) {
  FormatArguments arguments(values);
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const std::size_t close = format.compare(i, 2, "%(") == 0 ? format.find(')', i) : std::string::npos;
    const std::string name = close == std::string::npos ? "" : format.substr(i + 2, close - i - 2);
    if (close != std::string::npos) i = close;
    std::string spec;
    for (++i; i < format.size() && std::string_view("-+ #0.123456789").find(format[i]) != std::string_view::npos; ++i) spec += format[i];
    if (i >= format.size()) throw TemplateError("incomplete format");
    if (spec.size() > 8) throw TemplateError("a format this wide is not supported");
    out += format[i] == '%' ? "%" : formatted(close == std::string::npos ? arguments.next() : arguments.named(name), spec, format[i]);
  }
  arguments.expect_done();
  return out;
}

}  // namespace tessera::data::jinja
