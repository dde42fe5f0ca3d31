#include "tessera/data/template/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tessera::data::jinja {
namespace {

const Methods& dict_methods() {
  static const Methods methods = {
      {"items",
       [](const Value& self, const Arguments&) {
         std::vector<Value> items;
         for (const auto& [key, value] : self.dict()->entries) items.push_back(Value::tuple({key, value}));
         return Value::list(std::move(items));
       }},
      {"keys", [](const Value& self, const Arguments&) { return Value::list(elements(self)); }},
      {"values",
       [](const Value& self, const Arguments&) {
         std::vector<Value> items;
         for (const auto& entry : self.dict()->entries) items.push_back(entry.second);
         return Value::list(std::move(items));
       }},
      {"get",
       [](const Value& self, const Arguments& a) {
         const Value* key = a.find("key", 0);
         if (key == nullptr) throw TemplateError("get expected at least 1 argument, got 0");
         if (const Value* value = self.dict()->find(*key)) return *value;
         const Value* fallback = a.find("default", 1);
         return fallback == nullptr ? Value(None{}) : *fallback;
       }},
      {"copy", [](const Value& self, const Arguments&) { return self; }},
  };
  return methods;
}

const Methods& sequence_methods() {
  static const Methods methods = {
      {"index",
       [](const Value& self, const Arguments& a) {
         const auto& items = self.sequence()->items;
         for (std::size_t i = 0; i < items.size(); ++i)
           if (!a.positional.empty() && equal(items[i], a.positional[0])) return Value::size(i);
         throw TemplateError("the value is not in the list");
       }},
      {"count",
       [](const Value& self, const Arguments& a) {
         const auto& items = self.sequence()->items;
         return Value::size(static_cast<std::size_t>(
             std::count_if(items.begin(), items.end(), [&](const Value& item) { return !a.positional.empty() && equal(item, a.positional[0]); })));
       }},
      {"copy", [](const Value& self, const Arguments&) { return self; }},
  };
  return methods;
}

/// What the immutable sandbox forbids: methods that change what they are called on.
void refuse_changes(const Value& object, const std::string& name) {
  static constexpr std::array<std::string_view, 5> kDict = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::array<std::string_view, 8> kList = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  const bool dict = object.dict() != nullptr && std::find(kDict.begin(), kDict.end(), name) != kDict.end();
  const bool list = object.sequence() != nullptr && !object.sequence()->tuple && std::find(kList.begin(), kList.end(), name) != kList.end();
  if (dict || list) throw TemplateError(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
}

}  // namespace

Value method(const Value& object, const std::string& name) {
  refuse_changes(object, name);
  const Methods* methods = object.string() != nullptr     ? &string_methods()
                           : object.dict() != nullptr     ? &dict_methods()
                           : object.sequence() != nullptr ? &sequence_methods()
                                                          : nullptr;
  const auto found = methods == nullptr ? Methods::const_iterator() : methods->find(name);
  if (methods == nullptr || found == methods->end()) return Undefined{"no such method"};
  return Callable{name, [object, run = found->second](Interpreter& interpreter, const Arguments& arguments) {
                    interpreter.charge(weight(object));
                    Value result = run(object, arguments);
                    interpreter.charge(cost(result));
                    return result;
                  }};
}

}  // namespace tessera::data::jinja
