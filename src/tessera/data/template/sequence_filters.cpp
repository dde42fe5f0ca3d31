#include "tessera/data/template/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data::jinja {
namespace {

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
    if (found.is_undefined() && fallback != nullptr) found = *fallback;
    items.push_back(std::move(found));
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

}  // namespace

const Filters& sequence_filters() {
  using I = Interpreter;
  using V = Value;
  using A = Arguments;
  static const Filters table = {
      {"batch", batch},
      {"count", [](I&, const V& v, const A&) { return V::size(length(v)); }},
      {"dictsort", dictsort},
      {"first",
       [](I&, const V& v, const A&) {
         const auto list = elements(v);
         return list.empty() ? V(Undefined{"no first item, sequence was empty"}) : list.front();
       }},
      {"groupby", groupby},
      {"items", items},
      {"join", join},
      {"last",
       [](I&, const V& v, const A&) {
         const auto list = elements(v);
         return list.empty() ? V(Undefined{"no last item, sequence was empty"}) : list.back();
       }},
      {"length", [](I&, const V& v, const A&) { return V::size(length(v)); }},
      {"list", [](I&, const V& v, const A&) { return V::list(elements(v)); }},
      {"map", map},
      {"max", [](I&, const V& v, const A& a) { return extreme(v, a, true); }},
      {"min", [](I&, const V& v, const A& a) { return extreme(v, a, false); }},
      {"reject", [](I& i, const V& v, const A& a) { return select(i, v, a, false, false); }},
      {"rejectattr", [](I& i, const V& v, const A& a) { return select(i, v, a, true, false); }},
      {"reverse", reversed},
      {"select", [](I& i, const V& v, const A& a) { return select(i, v, a, false, true); }},
      {"selectattr", [](I& i, const V& v, const A& a) { return select(i, v, a, true, true); }},
      {"sort", sort},
      {"sum", sum},
      {"unique", unique},
  };
  return table;
}

}  // namespace tessera::data::jinja
