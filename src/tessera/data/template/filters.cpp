// Jinja's filters (https://jinja.palletsprojects.com/en/stable/templates/#builtin-filters), and tojson as transformers defines it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "tessera/data/template/interpreter.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data::jinja {
namespace {

using Filter = Value (*)(Interpreter& interpreter, const Value& value, const Arguments& arguments);

const std::string& text_of(const Value& value) {
  if (value.string() == nullptr) throw TemplateError(fmt::format("expected str, got {}", type_name(value)));
  return *value.string();
}

bool flag(const Arguments& arguments, std::string_view name, std::size_t position, bool fallback) {
  const Value* value = arguments.find(name, position);
  return value == nullptr ? fallback : truth(*value);
}

std::int64_t integer(const Arguments& arguments, std::string_view name, std::size_t position, std::int64_t fallback) {
  const Value* value = arguments.find(name, position);
  return value == nullptr || value->is_none() ? fallback : value->as_integer(name);
}

/// Calls a str method on the value's text.
Value by_method(const char* name, Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return interpreter.call(method(to_text(value), name), arguments);
}

/// "a.b.0": attributes and elements one after another.
Value path_of(const Value& item, const Value& path) {
  if (path.is_integer()) return subscript(item, path);
  Value current = item;
  const std::string& text = text_of(path);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    std::int64_t index = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    current = error == std::errc() && stop == part.data() + part.size() ? subscript(current, index) : subscript(current, part);
    begin = end + 1;
  }
  return current;
}

Value sort_key(const Value& value, bool case_sensitive) {
  return !case_sensitive && value.string() != nullptr ? Value(lowercase(*value.string())) : value;
}

template <class Key>
void sort_by(std::vector<Value>& items, bool reverse, const Key& key) {
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) keyed.emplace_back(key(item), item);
  std::stable_sort(keyed.begin(), keyed.end(),
                   [reverse](const auto& a, const auto& b) { return reverse ? less(b.first, a.first) : less(a.first, b.first); });
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = keyed[i].second;
}

Value sort(Interpreter&, const Value& value, const Arguments& arguments) {
  std::vector<Value> items = elements(value);
  const Value* attribute_path = arguments.find("attribute", 2);
  const bool case_sensitive = flag(arguments, "case_sensitive", 1, false);
  sort_by(items, flag(arguments, "reverse", 0, false), [&](const Value& item) {
    return sort_key(attribute_path == nullptr || attribute_path->is_none() ? item : path_of(item, *attribute_path), case_sensitive);
  });
  return Value::list(std::move(items));
}

Value dictsort(Interpreter&, const Value& value, const Arguments& arguments) {
  if (value.dict() == nullptr) throw TemplateError(fmt::format("'{}' object has no attribute 'items'", type_name(value)));
  const Value* by = arguments.find("by", 1);
  const std::size_t part = by != nullptr && text_of(*by) == "value" ? 1 : 0;
  const bool case_sensitive = flag(arguments, "case_sensitive", 0, false);
  std::vector<Value> items;
  for (const auto& [key, held] : value.dict()->entries) items.push_back(Value::tuple({key, held}));
  sort_by(items, flag(arguments, "reverse", 2, false), [&](const Value& item) { return sort_key(item.sequence()->items[part], case_sensitive); });
  return Value::list(std::move(items));
}

Value join(Interpreter&, const Value& value, const Arguments& arguments) {
  const Value* separator = arguments.find("d", 0);
  const Value* attribute_path = arguments.find("attribute", 1);
  std::string out;
  bool first = true;
  for (const Value& item : elements(value)) {
    if (!std::exchange(first, false) && separator != nullptr) out += to_text(*separator);
    out += to_text(attribute_path == nullptr ? item : path_of(item, *attribute_path));
    check_text_size(out.size());
  }
  return out;
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

Value sum(Interpreter&, const Value& value, const Arguments& arguments) {
  const Value* attribute_path = arguments.find("attribute", 0);
  const Value* start = arguments.find("start", 1);
  Value total = start == nullptr ? Value(std::int64_t{0}) : *start;
  for (const Value& item : elements(value))
    total = arithmetic("+", total, attribute_path == nullptr || attribute_path->is_none() ? item : path_of(item, *attribute_path));
  return total;
}

Value extreme(const Value& value, const Arguments& arguments, bool largest) {
  const Value* attribute_path = arguments.find("attribute", 1);
  const bool case_sensitive = flag(arguments, "case_sensitive", 0, false);
  const std::vector<Value> items = elements(value);
  if (items.empty()) return Undefined{"no aggregated item, sequence was empty"};
  const auto key = [&](const Value& item) { return sort_key(attribute_path == nullptr ? item : path_of(item, *attribute_path), case_sensitive); };
  const Value* best = items.data();
  for (const Value& item : items)
    if (largest ? less(key(*best), key(item)) : less(key(item), key(*best))) best = &item;
  return *best;
}

Value unique(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value* attribute_path = arguments.find("attribute", 1);
  const bool case_sensitive = flag(arguments, "case_sensitive", 0, false);
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (const Value& item : elements(value)) {
    const Value key = sort_key(attribute_path == nullptr ? item : path_of(item, *attribute_path), case_sensitive);
    interpreter.charge(seen.size());
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& other) { return equal(other, key); })) continue;
    seen.push_back(key);
    kept.push_back(item);
  }
  return Value::list(std::move(kept));
}

Value map(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  std::vector<Value> items;
  const Value* attribute_path = arguments.positional.empty() ? arguments.find("attribute", 0) : nullptr;
  const Value* fallback = arguments.find("default", arguments.positional.size());
  if (attribute_path == nullptr && arguments.positional.empty()) throw TemplateError("map requires a filter argument");
  const Arguments rest =
      arguments.positional.empty() ? Arguments{} : Arguments{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  for (const Value& item : elements(value)) {
    if (attribute_path == nullptr) {
      items.push_back(interpreter.filter(text_of(arguments.positional[0]), item, rest));
      continue;
    }
    Value found = path_of(item, *attribute_path);
    items.push_back(found.is_undefined() && fallback != nullptr ? *fallback : std::move(found));
  }
  return Value::list(std::move(items));
}

/// select, reject, selectattr, rejectattr: keep the items for which a test (truth without one) holds, or does not.
Value select(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool of_attribute, bool wanted) {
  const std::size_t skip = of_attribute ? 1 : 0;
  if (arguments.positional.size() < skip) throw TemplateError("missing parameter for attribute name");
  const bool tested = arguments.positional.size() > skip;
  Arguments rest;
  if (tested) rest = {{arguments.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1, arguments.positional.end()}, arguments.named};
  std::vector<Value> kept;
  for (const Value& item : elements(value)) {
    const Value subject = of_attribute ? path_of(item, arguments.positional[0]) : item;
    const bool holds = tested ? interpreter.test(text_of(arguments.positional[skip]), subject, rest) : truth(subject);
    if (holds == wanted) kept.push_back(item);
  }
  return Value::list(std::move(kept));
}

Value groupby(Interpreter&, const Value& value, const Arguments& arguments) {
  const Value* attribute_path = arguments.find("attribute", 0);
  if (attribute_path == nullptr) throw TemplateError("groupby requires an attribute");
  std::vector<Value> items = elements(value);
  const auto key = [&](const Value& item) { return sort_key(path_of(item, *attribute_path), flag(arguments, "case_sensitive", 2, false)); };
  sort_by(items, false, key);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < items.size();) {
    std::size_t end = begin;
    while (end < items.size() && equal(key(items[end]), key(items[begin]))) ++end;
    const auto at = [&](std::size_t i) { return items.begin() + static_cast<std::ptrdiff_t>(i); };
    groups.push_back(Value::tuple({path_of(items[begin], *attribute_path), Value::list({at(begin), at(end)})}));
    begin = end;
  }
  return Value::list(std::move(groups));
}

Value batch(Interpreter&, const Value& value, const Arguments& arguments) {
  const std::int64_t size = integer(arguments, "linecount", 0, 0);
  const Value* fill = arguments.find("fill_with", 1);
  if (size <= 0 || size > 1'000'000) throw TemplateError("batch needs a positive size");
  std::vector<Value> rows;
  std::vector<Value> row;
  for (const Value& item : elements(value)) {
    row.push_back(item);
    if (static_cast<std::int64_t>(row.size()) == size) rows.push_back(Value::list(std::exchange(row, {})));
  }
  if (!row.empty()) {
    while (fill != nullptr && !fill->is_none() && static_cast<std::int64_t>(row.size()) < size) row.push_back(*fill);
    rows.push_back(Value::list(std::move(row)));
  }
  return Value::list(std::move(rows));
}

Value items(Interpreter& interpreter, const Value& value, const Arguments&) {
  if (value.is_undefined()) return Value::list({});
  if (value.dict() == nullptr) throw TemplateError("can only get item pairs from a mapping");
  return interpreter.call(method(value, "items"), {});
}

Value reversed(Interpreter&, const Value& value, const Arguments&) {
  std::vector<Value> list = elements(value);
  std::reverse(list.begin(), list.end());
  if (value.string() == nullptr) return Value::list(std::move(list));
  std::string text;
  for (const Value& character : list) text += *character.string();
  return text;
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

const std::map<std::string_view, Filter>& filters() {
  using I = Interpreter;
  using V = Value;
  using A = Arguments;
  static const std::map<std::string_view, Filter> table = {
      {"abs", absolute},
      {"attr", [](I&, const V& v, const A& a) { return a.positional.empty() ? V() : attribute(v, text_of(a.positional[0])); }},
      {"batch", batch},
      {"capitalize", [](I& i, const V& v, const A& a) { return by_method("capitalize", i, v, a); }},
      {"center", [](I& i, const V& v, const A& a) { return by_method("center", i, v, a.positional.empty() ? A{{V(std::int64_t{80})}, {}} : a); }},
      {"count", [](I&, const V& v, const A&) { return V::size(length(v)); }},
      {"d", default_value},
      {"default", default_value},
      {"dictsort", dictsort},
      {"e", escaped},
      {"escape", escaped},
      {"first",
       [](I&, const V& v, const A&) {
         const auto list = elements(v);
         return list.empty() ? V(Undefined{"no first item, sequence was empty"}) : list.front();
       }},
      {"float", to_real},
      {"forceescape", escaped},
      {"format", [](I&, const V& v, const A& a) { return V(percent_format(to_text(v), V::tuple(a.positional))); }},
      {"groupby", groupby},
      {"indent", indent},
      {"int", to_integer},
      {"items", items},
      {"join", join},
      {"last",
       [](I&, const V& v, const A&) {
         const auto list = elements(v);
         return list.empty() ? V(Undefined{"no last item, sequence was empty"}) : list.back();
       }},
      {"length", [](I&, const V& v, const A&) { return V::size(length(v)); }},
      {"list", [](I&, const V& v, const A&) { return V::list(elements(v)); }},
      {"lower", [](I&, const V& v, const A&) { return V(lowercase(to_text(v))); }},
      {"map", map},
      {"max", [](I&, const V& v, const A& a) { return extreme(v, a, true); }},
      {"min", [](I&, const V& v, const A& a) { return extreme(v, a, false); }},
      {"reject", [](I& i, const V& v, const A& a) { return select(i, v, a, false, false); }},
      {"rejectattr", [](I& i, const V& v, const A& a) { return select(i, v, a, true, false); }},
      {"replace", [](I& i, const V& v, const A& a) { return by_method("replace", i, v, a); }},
      {"reverse", reversed},
      {"round", rounded},
      {"safe", [](I&, const V& v, const A&) { return V(to_text(v)); }},
      {"select", [](I& i, const V& v, const A& a) { return select(i, v, a, false, true); }},
      {"selectattr", [](I& i, const V& v, const A& a) { return select(i, v, a, true, true); }},
      {"sort", sort},
      {"string", [](I&, const V& v, const A&) { return V(to_text(v)); }},
      {"sum", sum},
      {"title", title},
      {"tojson", tojson},
      {"trim", [](I& i, const V& v, const A& a) { return by_method("strip", i, v, a); }},
      {"truncate", truncate},
      {"unique", unique},
      {"upper", [](I&, const V& v, const A&) { return V(uppercase(to_text(v))); }},
      {"urlencode", urlencode},
      {"wordcount", wordcount},
  };
  return table;
}

}  // namespace

Value Interpreter::filter(std::string_view name, const Value& value, const Arguments& arguments) {
  const auto found = filters().find(name);
  if (found == filters().end()) throw TemplateError(fmt::format("no filter named '{}'", name));
  charge(weight(value));
  Value result = found->second(*this, value, arguments);
  charge(cost(result));
  return result;
}

}  // namespace tessera::data::jinja
