#include "tessera/data/template/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data::jinja {
namespace {

/// Calls a str method on the value's text.
Value by_method(const char* name, Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return interpreter.call(method(to_text(value), name), arguments);
}

Value default_value(Interpreter&, const Value& value, const Arguments& arguments) {
  const bool replaces_false = flag(arguments, "boolean", 1, false);
  if (!value.is_undefined() && (!replaces_false || truth(value))) return value;
  const Value* fallback = arguments.find("default_value", 0);
  return fallback == nullptr ? Value("") : *fallback;
}

Value tojson(Interpreter&, const Value& value, const Arguments& arguments) {
  JsonStyle style;
  style.ensure_ascii = flag(arguments, "ensure_ascii", 0, false);
  if (const Value* indent = arguments.find("indent", 1); indent != nullptr && !indent->is_none()) {
    style.indent = static_cast<int>(std::clamp<std::int64_t>(indent->as_integer("indent"), 0, 64));
    style.item_separator = ",";
  }
  if (const Value* separators = arguments.find("separators", 2); separators != nullptr && !separators->is_none()) {
    const auto parts = elements(*separators);
    if (parts.size() != 2) throw TemplateError("separators must be a pair");
    style.item_separator = text_of(parts[0]);
    style.key_separator = text_of(parts[1]);
  }
  style.sort_keys = flag(arguments, "sort_keys", 3, false);
  return to_json(value, style);
}

Value indent(Interpreter&, const Value& value, const Arguments& arguments) {
  const Value* width = arguments.find("width", 0);
  const std::string margin = width != nullptr && width->string() != nullptr
                                 ? *width->string()
                                 : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(integer(arguments, "width", 0, 4), 0, 1000)), ' ');
  const bool first = flag(arguments, "first", 1, false);
  const bool blank = flag(arguments, "blank", 2, false);
  const std::string text = to_text(value);
  std::string out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const bool indented = begin == 0 ? first : blank || end > begin;
    out.append(indented ? margin : "").append(text, begin, end - begin);
    if (end < text.size()) out += '\n';
    check_text_size(out.size());
    begin = end + 1;
  }
  return out;
}

Value to_integer(Interpreter&, const Value& value, const Arguments& arguments) {
  if (value.is_real())
    return std::isfinite(value.as_real()) && std::abs(value.as_real()) < 9e18 ? static_cast<std::int64_t>(value.as_real()) : std::int64_t{0};
  if (value.is_number()) return value.as_integer("");
  const std::int64_t fallback = integer(arguments, "default", 0, 0);
  if (value.string() == nullptr) return fallback;
  std::string_view text = *value.string();
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t number = 0;
  if (const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      error == std::errc() && end == text.data() + text.size())
    return number;
  double real = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), real);
  const bool whole = error == std::errc() && end == text.data() + text.size() && std::abs(real) < 9e18;
  return whole ? static_cast<std::int64_t>(real) : fallback;
}

Value to_real(Interpreter&, const Value& value, const Arguments& arguments) {
  if (value.is_number()) return value.as_real();
  const Value* fallback = arguments.find("default", 0);
  double real = fallback != nullptr && fallback->is_number() ? fallback->as_real() : 0;
  if (const std::string* text = value.string()) {
    double parsed = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), parsed);
    if (error == std::errc() && end == text->data() + text->size()) real = parsed;
  }
  return real;
}

Value rounded(Interpreter&, const Value& value, const Arguments& arguments) {
  if (!value.is_number()) throw TemplateError(fmt::format("type {} doesn't define __round__ method", type_name(value)));
  const double scale = std::pow(10.0, static_cast<double>(std::clamp<std::int64_t>(integer(arguments, "precision", 0, 0), -300, 300)));
  const Value* how = arguments.find("method", 1);
  const std::string kind = how == nullptr ? "common" : text_of(*how);
  const double scaled = value.as_real() * scale;
  if (kind == "ceil") return std::ceil(scaled) / scale;
  if (kind == "floor") return std::floor(scaled) / scale;
  if (kind == "common") return std::nearbyint(scaled) / scale;
  throw TemplateError("method must be common, ceil or floor");
}

Value absolute(Interpreter&, const Value& value, const Arguments&) {
  if (value.is_real()) return std::abs(value.as_real());
  if (!value.is_number()) throw TemplateError(fmt::format("bad operand type for abs(): '{}'", type_name(value)));
  return truth(less(value, std::int64_t{0})) ? arithmetic("-", std::int64_t{0}, value) : Value(value.as_integer(""));
}

Value escaped(Interpreter&, const Value& value, const Arguments&) {
  std::string out;
  for (const char c : to_text(value))
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&#34;" : c == '\'' ? "&#39;" : std::string(1, c);
  return out;
}

Value title(Interpreter&, const Value& value, const Arguments&) {
  std::string out;
  bool in_word = false;
  for (const Value& character : elements(to_text(value))) {
    const std::string& one = *character.string();
    out += in_word ? lowercase(one) : uppercase(one);
    const char32_t c = code_point_at(one, 0).value;
    in_word = !(is_white_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<');
  }
  return out;
}

Value truncate(Interpreter&, const Value& value, const Arguments& arguments) {
  const std::int64_t limit = integer(arguments, "length", 0, 255);
  const bool kill_words = flag(arguments, "killwords", 1, false);
  const Value* end_value = arguments.find("end", 2);
  const std::string end = end_value == nullptr ? "..." : text_of(*end_value);
  const std::int64_t leeway = integer(arguments, "leeway", 3, 5);
  const Value text = to_text(value);
  const auto size = static_cast<std::int64_t>(length(text));
  const auto end_size = static_cast<std::int64_t>(length(Value(end)));
  if (limit < end_size) throw TemplateError("truncate needs a length of at least that of its end");
  if (size <= limit || (size - limit <= leeway)) return text;
  std::string cut = *slice(text, None{}, limit - end_size, None{}).string();
  if (!kill_words)
    if (const std::size_t space = cut.rfind(' '); space != std::string::npos) cut.resize(space);
  return cut + end;
}

Value wordcount(Interpreter&, const Value& value, const Arguments&) {
  std::int64_t count = 0;
  bool in_word = false;
  for (const Value& character : elements(to_text(value))) {
    const bool word = is_word_character(code_point_at(*character.string(), 0).value);
    count += word && !in_word ? 1 : 0;
    in_word = word;
  }
  return count;
}

Value urlencode(Interpreter&, const Value& value, const Arguments&) {
  std::string out;
  for (const char c : to_text(value)) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

const Filters& scalar_filters() {
  using I = Interpreter;
  using V = Value;
  using A = Arguments;
  static const Filters table = {
      {"abs", absolute},
      {"attr", [](I&, const V& v, const A& a) { return a.positional.empty() ? V() : attribute(v, text_of(a.positional[0])); }},
      {"capitalize", [](I& i, const V& v, const A& a) { return by_method("capitalize", i, v, a); }},
      {"center", [](I& i, const V& v, const A& a) { return by_method("center", i, v, a.positional.empty() ? A{{V(std::int64_t{80})}, {}} : a); }},
      {"d", default_value},
      {"default", default_value},
      {"e", escaped},
      {"escape", escaped},
      {"float", to_real},
      {"forceescape", escaped},
      {"format", [](I&, const V& v, const A& a) { return V(percent_format(to_text(v), V::tuple(a.positional))); }},
      {"indent", indent},
      {"int", to_integer},
      {"lower", [](I&, const V& v, const A&) { return V(lowercase(to_text(v))); }},
      {"replace", [](I& i, const V& v, const A& a) { return by_method("replace", i, v, a); }},
      {"round", rounded},
      {"safe", [](I&, const V& v, const A&) { return V(to_text(v)); }},
      {"string", [](I&, const V& v, const A&) { return V(to_text(v)); }},
      {"title", title},
      {"tojson", tojson},
      {"trim", [](I& i, const V& v, const A& a) { return by_method("strip", i, v, a); }},
      {"truncate", truncate},
      {"upper", [](I&, const V& v, const A&) { return V(uppercase(to_text(v))); }},
      {"urlencode", urlencode},
      {"wordcount", wordcount},
  };
  return table;
}

}  // namespace tessera::data::jinja
