// How a scalar's text becomes a value. PyYAML reads YAML 1.1, and AutoModel then reads Python literals inside what is left as text; the union of
// both is accepted here wherever the recipe's key wants that type.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "tessera/config/node.h"
#include "tessera/core/text.h"

namespace tessera::config {

namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) { return std::ranges::find(words, text) != words.end(); }

/// Removes single underscores between digits; nothing when one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      result.push_back(text[i]);
      continue;
    }
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) return std::nullopt;
  }
  return result;
}

std::optional<std::int64_t> integer_of(std::string_view digits, bool negative, int base) {
  if (digits.empty() || digits.front() == '-' || digits.front() == '+') return std::nullopt;
  std::uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  const std::uint64_t limit = std::uint64_t{1} << 63;
  if (magnitude > limit || (magnitude == limit && !negative)) return std::nullopt;
  return negative ? static_cast<std::int64_t>(-magnitude) : static_cast<std::int64_t>(magnitude);
}

/// "010" is 8 in YAML 1.1 and 10 in 1.2: refused rather than guessed.
bool has_leading_zero(std::string_view digits) {
  if (digits.starts_with('-')) digits.remove_prefix(1);
  return digits.size() > 1 && digits.front() == '0' && digits.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  const auto clean = without_underscores(text);
  if (!clean) return std::nullopt;
  std::string_view digits = *clean;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.starts_with("0x") || digits.starts_with("0X")) return integer_of(digits.substr(2), negative, 16);
  if (digits.starts_with("0o") || digits.starts_with("0O")) return integer_of(digits.substr(2), negative, 8);
  if (has_leading_zero(digits)) return std::nullopt;
  return integer_of(digits, negative, 10);
}

std::optional<double> parse_float(std::string_view text) {
  const auto clean = without_underscores(text);
  if (!clean) return std::nullopt;
  std::string_view digits = *clean;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const std::string lower = to_lower(digits);
  if (lower == ".inf") return std::numeric_limits<double>::infinity();
  if (lower == "-.inf") return -std::numeric_limits<double>::infinity();
  if (lower == ".nan") return std::numeric_limits<double>::quiet_NaN();
  // from_chars would take "inf" and "nan" too, which YAML reads as text.
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos || digits.starts_with('+')) return std::nullopt;
  if (has_leading_zero(digits)) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

bool is_null(const Node& node) {
  if (node.kind == Node::Kind::Null) return true;
  if (!node.is_scalar()) return false;
  if (is_one_of(node.text, {"none", "None"})) return true;
  return !node.quoted && is_one_of(node.text, {"", "~", "null", "Null", "NULL"});
}

std::optional<bool> as_bool(const Node& node) {
  if (!node.is_scalar()) return std::nullopt;
  if (is_one_of(node.text, {"true", "True", "TRUE"})) return true;
  if (is_one_of(node.text, {"false", "False", "FALSE"})) return false;
  if (node.quoted) return std::nullopt;
  const std::string lower = to_lower(node.text);
  if (is_one_of(lower, {"yes", "on"})) return true;
  if (is_one_of(lower, {"no", "off"})) return false;
  return std::nullopt;
}

std::optional<std::int64_t> as_int(const Node& node) {
  if (!node.is_scalar()) return std::nullopt;
  if (const auto value = parse_integer(node.text)) return value;
  const auto value = parse_float(node.text);
  // 2^53: beyond it a float no longer says which integer was meant.
  if (!value || std::trunc(*value) != *value || std::abs(*value) > 9007199254740992.0) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<double> as_double(const Node& node) {
  if (!node.is_scalar()) return std::nullopt;
  if (const auto value = parse_integer(node.text)) return static_cast<double>(*value);
  return parse_float(node.text);
}

std::optional<std::string> as_string(const Node& node) {
  if (!node.is_scalar() || is_null(node)) return std::nullopt;
  return node.text;
}

namespace {

Json scalar_to_json(const Node& node) {
  if (is_null(node)) return nullptr;
  if (const auto value = as_bool(node)) return *value;
  if (const auto value = parse_integer(node.text)) return *value;
  if (const auto value = parse_float(node.text)) return *value;
  return node.text;
}

}  // namespace

Json to_json(const Node& node) {
  switch (node.kind) {
    case Node::Kind::Null:
      return nullptr;
    case Node::Kind::Scalar:
      return scalar_to_json(node);
    case Node::Kind::Sequence: {
      Json list = Json::array();
      for (const Node& item : node.items) list.push_back(to_json(item));
      return list;
    }
    case Node::Kind::Map:
      break;
  }
  Json object = Json::object();
  for (const Entry& entry : node.entries) object[entry.key] = to_json(entry.value);
  return object;
}

}  // namespace tessera::config
