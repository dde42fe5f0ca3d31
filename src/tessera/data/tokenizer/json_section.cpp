#include "tessera/data/tokenizer/json_section.h"

#include <fmt/format.h>

#include <limits>

#include "tessera/core/error.h"

namespace tessera::data {

JsonSection::JsonSection(const Json& json, std::string where, std::string path) : json_(json), where_(std::move(where)), path_(std::move(path)) {
  if (!json_.is_object()) fail(fmt::format("expected an object, found {}", json_.type_name()));
}

void JsonSection::fail(const std::string& what, const std::string& rule) const {
  throw UserError({where_, path_.empty() ? what : fmt::format("{}: {}", path_, what), rule, kDamagedTokenizer});
}

void JsonSection::not_supported(const std::string& what, const std::string& rule) const {
  throw UserError({where_, fmt::format("{}{}{} is not supported", path_, path_.empty() ? "" : ": ", what), rule, kOtherTokenizer});
}

const Json* JsonSection::find(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

const Json& JsonSection::required(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) fail(fmt::format("\"{}\" is missing", key));
  return *value;
}

std::string JsonSection::string(const char* key) const {
  const Json& value = required(key);
  if (!value.is_string()) fail(fmt::format("\"{}\" must be a string, found {}", key, value.type_name()));
  return value.get<std::string>();
}

std::string JsonSection::string_or(const char* key, std::string fallback) const { return find(key) == nullptr ? std::move(fallback) : string(key); }

bool JsonSection::boolean_or(const char* key, bool fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(fmt::format("\"{}\" must be true or false, found {}", key, value->type_name()));
  return value->get<bool>();
}

std::optional<std::uint64_t> JsonSection::integer(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = natural_number(*value, std::numeric_limits<std::uint64_t>::max());
  if (!number) fail(fmt::format("\"{}\" must be a non-negative integer, found {}", key, value->dump().substr(0, 40)));
  return number;
}

JsonSection JsonSection::object(const char* key) const { return {required(key), where_, path_.empty() ? key : fmt::format("{}.{}", path_, key)}; }

const Json& JsonSection::array(const char* key) const {
  const Json& value = required(key);
  if (!value.is_array()) fail(fmt::format("\"{}\" must be a list, found {}", key, value.type_name()));
  return value;
}

std::optional<std::uint64_t> natural_number(const Json& json, std::uint64_t largest) {
  if (!json.is_number_integer() || (!json.is_number_unsigned() && json.get<std::int64_t>() < 0)) return std::nullopt;
  const auto number = json.get<std::uint64_t>();
  return number <= largest ? std::optional(number) : std::nullopt;
}

std::vector<JsonSection> flatten_sequence(const Json& json, const std::string& where, const std::string& path, const char* member) {
  if (json.is_null()) return {};
  const JsonSection section(json, where, path);
  if (section.string("type") != "Sequence") return {section};
  std::vector<JsonSection> steps;
  const Json& list = section.array(member);
  for (std::size_t i = 0; i < list.size(); ++i)
    for (JsonSection& step : flatten_sequence(list[i], where, fmt::format("{}.{}[{}]", path, member, i), member)) steps.push_back(std::move(step));
  return steps;
}

}  // namespace tessera::data
