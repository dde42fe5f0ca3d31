#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tessera/data/template/interpreter.h"

/// Jinja's filters (https://jinja.palletsprojects.com/en/stable/templates/#builtin-filters), and tojson as transformers defines it.
namespace tessera::data::jinja {

using Filter = Value (*)(Interpreter& interpreter, const Value& value, const Arguments& arguments);
using Filters = std::map<std::string_view, Filter>;

/// Filters of lists and mappings: order, choice, grouping, sums.
const Filters& sequence_filters();
/// Filters of one text, number or other value.
const Filters& scalar_filters();

/// The text inside; TemplateError for anything else.
const std::string& text_of(const Value& value);
/// The argument `name`, by name or position, as a truth value or a whole number; `fallback` when it is absent.
bool flag(const Arguments& arguments, std::string_view name, std::size_t position, bool fallback);
std::int64_t integer(const Arguments& arguments, std::string_view name, std::size_t position, std::int64_t fallback);

}  // namespace tessera::data::jinja
