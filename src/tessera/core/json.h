#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tessera {

using Json = nlohmann::json;
/// Keeps the order of keys: for what people read.
using OrderedJson = nlohmann::ordered_json;

/// Parses one JSON document. Malformed text, a key given twice, or nesting deeper than 200 is a UserError that starts with `where`:
/// for a whole file pass its path (the message adds the line), for a line of JSONL pass "path:line".
Json parse_json(std::string_view text, const std::string& where);
OrderedJson parse_ordered_json(std::string_view text, const std::string& where);
/// Reads and parses a file.
Json read_json_file(const std::filesystem::path& path);

}  // namespace tessera
