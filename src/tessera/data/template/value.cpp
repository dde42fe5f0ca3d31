#include "tessera/data/template/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data::jinja {
namespace {

bool equal_sequences(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

constexpr int kDeepestNesting = 200;
constexpr std::size_t kLongestTakenApart = 4'000'000;  // bytes
constexpr std::size_t kHeaviest = 100'000'000;

/// Counts one more element of a sequence or dict. Shared parts count each time they are met, which is what writing them costs.
template <class Container>
void add_part(Container& container, const Value& part) {
  container.nesting = std::max(container.nesting, nesting(part) + 1);
  container.weight += weight(part) + 1;
  if (container.nesting > kDeepestNesting) throw TemplateError(fmt::format("values nested deeper than {}", kDeepestNesting));
  if (container.weight > kHeaviest) throw TemplateError("a value grows too large");
}

Sequence make_sequence(std::vector<Value> items, bool tuple) {
  Sequence sequence{std::move(items), tuple, 1, 0};
  for (const Value& item : sequence.items) add_part(sequence, item);
  return sequence;
}

}  // namespace

int nesting(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->nesting;
  if (const Dict* dict = value.dict()) return dict->nesting;
  if (value.object() != nullptr || value.callable() != nullptr)
    throw TemplateError(fmt::format("a {} inside another value is not supported", type_name(value)));
  return 0;
}

std::size_t weight(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->weight;
  if (const Dict* dict = value.dict()) return dict->weight;
  const std::string* text = value.string();
  return text == nullptr ? 1 : text->size();
}

std::size_t cost(const Value& value) {
  constexpr std::size_t kElement = 16;
  const std::size_t elements = value.sequence() != nullptr ? value.sequence()->items.size()
                               : value.dict() != nullptr   ? value.dict()->entries.size()
                                                           : 0;
  return weight(value) + kElement * elements;
}

void check_text_size(std::size_t num_bytes) {
  constexpr std::size_t kLargest = std::size_t{1} << 27;
  if (num_bytes > kLargest) throw TemplateError("a value grows too large");
}

Value::Value(Dict value) {
  value.nesting = 1;
  value.weight = 0;
  for (const auto& [key, held] : value.entries) {
    add_part(value, key);
    add_part(value, held);
  }
  data_ = std::make_shared<const Dict>(std::move(value));
}

Value Value::list(std::vector<Value> items) { return Value(Data(std::make_shared<const Sequence>(make_sequence(std::move(items), false)))); }
Value Value::tuple(std::vector<Value> items) { return Value(Data(std::make_shared<const Sequence>(make_sequence(std::move(items), true)))); }

const Value* Dict::find(const Value& key) const {
  for (const auto& [known, value] : entries)
    if (equal(known, key)) return &value;
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [known, value] : entries)
    if (const std::string* text = known.string(); text != nullptr && *text == key) return &value;
  return nullptr;
}

void Dict::set(Value key, Value value) {
  for (auto& [known, held] : entries) {
    if (!equal(known, key)) continue;
    held = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
}

const Value* Arguments::find(std::string_view name, std::size_t position) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [known, value] : named)
    if (known == name) return &value;
  return nullptr;
}

Value Value::from_json(const OrderedJson& json) {
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return json.get<bool>();
    case OrderedJson::value_t::number_integer:
    case OrderedJson::value_t::number_unsigned:
      return json.get<std::int64_t>();
    case OrderedJson::value_t::number_float:
      return json.get<double>();
    case OrderedJson::value_t::string:
      return json.get<std::string>();
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      for (const OrderedJson& item : json) items.push_back(from_json(item));
      return list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      Dict dict;
      for (const auto& [key, value] : json.items()) dict.entries.emplace_back(key, from_json(value));
      return dict;
    }
    default:
      return None{};
  }
}

const std::string* Value::string() const {
  const auto* held = std::get_if<std::shared_ptr<const std::string>>(&data_);
  return held == nullptr ? nullptr : held->get();
}
const Sequence* Value::sequence() const {
  const auto* held = std::get_if<std::shared_ptr<const Sequence>>(&data_);
  return held == nullptr ? nullptr : held->get();
}
const Dict* Value::dict() const {
  const auto* held = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return held == nullptr ? nullptr : held->get();
}
Object* Value::object() const {
  const auto* held = std::get_if<std::shared_ptr<Object>>(&data_);
  return held == nullptr ? nullptr : held->get();
}
const Callable* Value::callable() const {
  const auto* held = std::get_if<std::shared_ptr<const Callable>>(&data_);
  return held == nullptr ? nullptr : held->get();
}

double Value::as_real() const {
  if (const auto* boolean = std::get_if<bool>(&data_)) return *boolean ? 1 : 0;
  if (const auto* integer = std::get_if<std::int64_t>(&data_)) return static_cast<double>(*integer);
  return std::get<double>(data_);
}

std::int64_t Value::as_integer(std::string_view what) const {
  if (const auto* boolean = std::get_if<bool>(&data_)) return *boolean ? 1 : 0;
  if (const auto* integer = std::get_if<std::int64_t>(&data_)) return *integer;
  throw TemplateError(fmt::format("{} must be an integer, not {}", what, type_name(*this)));
}

bool truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return value.as_real() != 0;
  if (const std::string* text = value.string()) return !text->empty();
  if (const Sequence* sequence = value.sequence()) return !sequence->items.empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  return true;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_real() || b.is_real()) return a.as_real() == b.as_real();
    return a.as_integer("a number") == b.as_integer("a number");
  }
  if (a.is_undefined() || a.is_none()) return a.data().index() == b.data().index();
  if (a.string() != nullptr) return b.string() != nullptr && *a.string() == *b.string();
  if (a.sequence() != nullptr)
    return b.sequence() != nullptr && a.sequence()->tuple == b.sequence()->tuple && equal_sequences(a.sequence()->items, b.sequence()->items);
  if (a.dict() != nullptr) return b.dict() != nullptr && equal_dicts(*a.dict(), *b.dict());
  if (a.object() != nullptr) return a.object() == b.object();
  return a.callable() != nullptr && a.callable() == b.callable();
}

bool less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_real() || b.is_real()) return a.as_real() < b.as_real();
    return a.as_integer("a number") < b.as_integer("a number");
  }
  if (a.string() != nullptr && b.string() != nullptr) return *a.string() < *b.string();
  if (a.sequence() != nullptr && b.sequence() != nullptr && a.sequence()->tuple == b.sequence()->tuple) {
    const auto& left = a.sequence()->items;
    const auto& right = b.sequence()->items;
    for (std::size_t i = 0; i < left.size() && i < right.size(); ++i)
      if (!equal(left[i], right[i])) return less(left[i], right[i]);
    return left.size() < right.size();
  }
  for (const Value* value : {&a, &b})
    if (value->is_undefined()) throw TemplateError(std::get<Undefined>(value->data()).message);
  throw TemplateError(fmt::format("'<' not supported between instances of '{}' and '{}'", type_name(a), type_name(b)));
}

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_boolean()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_real()) return "float";
  if (value.string() != nullptr) return "str";
  if (const Sequence* sequence = value.sequence()) return sequence->tuple ? "tuple" : "list";
  if (value.dict() != nullptr) return "dict";
  if (const Object* object = value.object()) return object->type;
  return "function";
}

std::vector<Value> elements(const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (const Sequence* sequence = value.sequence()) return sequence->items;
  if (const Dict* dict = value.dict()) {
    for (const auto& entry : dict->entries) items.push_back(entry.first);
    return items;
  }
  if (const std::string* text = value.string()) {
    if (text->size() > kLongestTakenApart) throw TemplateError("a text this long cannot be taken apart");
    for (std::size_t i = 0; i < text->size();) {
      const std::size_t num_bytes = code_point_at(*text, i).num_bytes;
      items.emplace_back(std::string_view(*text).substr(i, num_bytes));
      i += num_bytes;
    }
    return items;
  }
  throw TemplateError(fmt::format("'{}' object is not iterable", type_name(value)));
}

std::size_t length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const Sequence* sequence = value.sequence()) return sequence->items.size();
  if (const Dict* dict = value.dict()) return dict->entries.size();
  if (const std::string* text = value.string())
    return static_cast<std::size_t>(std::count_if(text->begin(), text->end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  throw TemplateError(fmt::format("object of type '{}' has no len()", type_name(value)));
}

}  // namespace tessera::data::jinja
