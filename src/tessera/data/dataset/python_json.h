#pragma once

#include <cstdint>
#include <string>

#include "tessera/core/json.h"

namespace tessera::data {

enum class JsonCharacters : std::uint8_t { Ascii, Any };

/// The value as Python's json.dumps writes it: ", " and ": " between things, floats as repr. Ascii: other characters as \uXXXX (ensure_ascii).
std::string python_json(const OrderedJson& value, JsonCharacters characters);
/// The value as Python's str() shows it: text as it is, True, None, 1.0, ['a', 1].
std::string python_text(const OrderedJson& value);

}  // namespace tessera::data
