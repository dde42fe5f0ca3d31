// The functions a chat template can call: Jinja's globals and those of transformers.
#include <fmt/format.h>

#include <array>
#include <map>

#include "tessera/data/template/interpreter.h"

namespace tessera::data::jinja {
namespace {

constexpr std::int64_t kLongestRange = 100'000;  // Jinja's sandbox has the same limit

Value range(Interpreter& interpreter, const Arguments& arguments) {
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3) throw TemplateError("range expected 1 to 3 arguments");
  const auto at = [&](std::size_t i) { return given[i].as_integer("a range bound"); };
  const std::int64_t start = given.size() > 1 ? at(0) : 0;
  const std::int64_t stop = given.size() > 1 ? at(1) : at(0);
  const std::int64_t step = given.size() > 2 ? at(2) : 1;
  if (step == 0) throw TemplateError("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<std::int64_t>(items.size()) == kLongestRange)
      throw TemplateError(fmt::format("range too big, at most {} items are allowed", kLongestRange));
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  Value list = Value::list(std::move(items));
  interpreter.charge(cost(list));
  return list;
}

Dict dict_of(const Arguments& arguments) {
  Dict dict;
  for (const Value& source : arguments.positional) {
    if (source.dict() != nullptr) {
      dict.entries = source.dict()->entries;
      continue;
    }
    for (const Value& pair : elements(source)) {
      const auto parts = elements(pair);
      if (parts.size() != 2) throw TemplateError("dictionary update sequence needs pairs");
      dict.set(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(name, value);
  return dict;
}

Value make_namespace(Interpreter&, const Arguments& arguments) {
  auto object = std::make_shared<Object>();
  object->type = "Namespace";
  object->assignable = true;
  object->attributes = dict_of(arguments);
  for (const auto& [key, value] : object->attributes.entries) {
    if (key.string() != nullptr && key.string()->starts_with('_'))
      throw TemplateError(fmt::format("chat templates cannot store underscore-prefixed attributes on a namespace, but got {}", to_repr(key)));
    nesting(value);  // refuses namespaces and functions within
  }
  return object;
}

Value raise_exception(Interpreter&, const Arguments& arguments) {
  throw TemplateError(arguments.positional.empty() ? "the template raised an exception" : to_text(arguments.positional[0]));
}

Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  const Value* format = arguments.find("format", 0);
  if (format == nullptr || format->string() == nullptr) throw TemplateError("strftime_now needs a format");
  if (format->string()->empty()) return "";
  if (format->string()->size() > 200) throw TemplateError("a strftime format this long is not supported");
  std::array<char, 4096> buffer{};
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), format->string()->c_str(), &interpreter.now());
  return std::string(buffer.data(), size);
}

}  // namespace

const Value* global_function(std::string_view name) {
  static const std::map<std::string_view, Value> functions = {
      {"range", Callable{"range", range}},
      {"dict", Callable{"dict", [](Interpreter&, const Arguments& arguments) { return Value(dict_of(arguments)); }}},
      {"namespace", Callable{"namespace", make_namespace}},
      {"raise_exception", Callable{"raise_exception", raise_exception}},
      {"strftime_now", Callable{"strftime_now", strftime_now}},
  };
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : &found->second;
}

}  // namespace tessera::data::jinja
