#pragma once

#include <map>
#include <string_view>

#include "tessera/data/template/interpreter.h"

/// The methods of Python's str, dict, list and tuple that templates use.
namespace tessera::data::jinja {

using Method = Value (*)(const Value& self, const Arguments& arguments);
using Methods = std::map<std::string_view, Method>;

/// Those of str; `self` must hold a text.
const Methods& string_methods();

}  // namespace tessera::data::jinja
