#include "tessera/data/template/filters.h"

#include <fmt/format.h>

namespace tessera::data::jinja {

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

namespace {

Filter find_filter(std::string_view name) {
  for (const Filters* const filters : {&sequence_filters(), &scalar_filters()})
    if (const auto found = filters->find(name); found != filters->end()) return found->second;
  throw TemplateError(fmt::format("no filter named '{}'", name));
}

}  // namespace

Value Interpreter::filter(std::string_view name, const Value& value, const Arguments& arguments) {
  const Filter filter = find_filter(name);
  charge(weight(value));
  Value result = filter(*this, value, arguments);
  charge(cost(result));
  return result;
}

}  // namespace tessera::data::jinja
