#include "tessera/model/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::model {
namespace {

/// Far beyond any model, and small enough that products of three sizes fit 64 bits when divided among a few dimensions.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;

std::string shortened(const Json& value) {
  std::string text = value.dump();
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

}  // namespace

ConfigReader::ConfigReader(const Json& config, Locate locate) : config_(config), locate_(std::move(locate)) {}

const Json* ConfigReader::find(const std::string& key) {
  read_.insert(key);
  const auto found = config_.find(key);
  return found == config_.end() || found->is_null() ? nullptr : &*found;
}

const Json* ConfigReader::find_of_kind(const std::string& key, bool (Json::*is_kind)() const noexcept, const std::string& kind) {
  const Json* value = find(key);
  if (value == nullptr || (value->*is_kind)()) return value;
  wrong(key, fmt::format("is {}, not {}", shortened(*value), kind));
  return nullptr;
}

std::int64_t ConfigReader::size(const std::string& key) {
  if (!has(key)) {
    wrong_.insert(key);
    problems_.add({locate_(key), fmt::format("{}{} is missing", prefix_, key), "the model's shape cannot be derived without it",
                   "add it, or download config.json again from where the model was published"});
    return 1;
  }
  return size(key, 1);
}

std::int64_t ConfigReader::size(const std::string& key, std::int64_t fallback) { return optional_size(key).value_or(fallback); }

std::optional<std::int64_t> ConfigReader::optional_size(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  // Sizes written as floats (4096.0) occur.
  const double number = value->is_number() ? value->get<double>() : 0.0;
  if (number < 1.0 || number > static_cast<double>(kLargestSize) || number != std::floor(number)) {
    wrong(key, fmt::format("is {}, not a positive integer", shortened(*value)));
    return std::nullopt;
  }
  return static_cast<std::int64_t>(number);
}

std::optional<std::int64_t> ConfigReader::token_id(const std::string& key) {
  const Json* value = find_of_kind(key, &Json::is_number_integer, "a token id");
  if (value == nullptr) return std::nullopt;
  const auto id = value->get<std::int64_t>();
  if (id < 0) return std::nullopt;  // some configs say −1 for "none"
  return id;
}

double ConfigReader::number(const std::string& key, double fallback) {
  const Json* value = find_of_kind(key, &Json::is_number, "a number");
  return value == nullptr ? fallback : value->get<double>();
}

double ConfigReader::positive_number(const std::string& key, double fallback) { return optional_positive_number(key).value_or(fallback); }

std::optional<double> ConfigReader::optional_positive_number(const std::string& key) {
  const Json* value = find_of_kind(key, &Json::is_number, "a number");
  if (value == nullptr) return std::nullopt;
  const auto number = value->get<double>();
  if (number > 0.0 && std::isfinite(number)) return number;
  wrong(key, fmt::format("is {}, not a positive number", shortened(*value)));
  return std::nullopt;
}

double ConfigReader::probability(const std::string& key, double fallback) {
  const double value = number(key, fallback);
  if (value >= 0.0 && value < 1.0) return value;
  wrong(key, fmt::format("is {}, not a probability below 1", value));
  return 0.0;
}

bool ConfigReader::boolean(const std::string& key, bool fallback) {
  const Json* value = find_of_kind(key, &Json::is_boolean, "true or false");
  return value == nullptr ? fallback : value->get<bool>();
}

std::string ConfigReader::text(const std::string& key, const std::string& fallback) {
  const Json* value = find_of_kind(key, &Json::is_string, "a string");
  return value == nullptr ? fallback : value->get<std::string>();
}

std::vector<double> ConfigReader::positive_numbers(const std::string& key) {
  const Json* list = find_of_kind(key, &Json::is_array, "a list of numbers");
  if (list == nullptr) return {};
  std::vector<double> numbers;
  for (const Json& entry : *list) {
    const double number = entry.is_number() ? entry.get<double>() : 0.0;
    if (number <= 0.0) {
      wrong(key, fmt::format("holds {}, not a positive number", shortened(entry)));
      return {};
    }
    numbers.push_back(number);
  }
  return numbers;
}

void ConfigReader::not_supported(const std::string& key, const std::string& rule, const std::string& fix) {
  wrong_.insert(key);
  const auto found = config_.find(key);
  const std::string value = found == config_.end() ? "absent" : shortened(*found);
  problems_.add({locate_(key), fmt::format("{}{}: {} is not supported", prefix_, key, value), rule, fix});
}

void ConfigReader::wrong(const std::string& key, const std::string& what, const std::string& rule) { add_wrong(key, locate_(key), what, rule); }

void ConfigReader::add_wrong(const std::string& key, std::string where, const std::string& what, const std::string& rule) {
  if (!wrong_.insert(key).second) return;  // it may be read more than once
  problems_.add(
      {std::move(where), fmt::format("{}{} {}", prefix_, key, what), rule, "correct it, or take its value from the model's published config.json"});
}

void ConfigReader::contradicts(const std::string& key, const std::vector<std::string>& others, const std::string& what, const std::string& rule) {
  if (is_wrong(key) || std::ranges::any_of(others, [this](const std::string& field) { return is_wrong(field); })) return;
  add_wrong(key, place_of(key, others), what, rule);
}

std::string ConfigReader::place_of(const std::string& key, const std::vector<std::string>& others) const {
  const auto file_of = [](const std::string& place) { return place.substr(0, place.find_last_not_of("0123456789") + 1); };
  const std::string usual = locate_("");
  std::vector<std::string> fields{key};
  fields.insert(fields.end(), others.begin(), others.end());
  for (const std::string& field : fields)
    if (const std::string place = locate_(field); !place.starts_with(usual) && file_of(place) != file_of(usual)) return place;
  return locate_(key);
}

ConfigReader ConfigReader::nested(const Json& object, const std::string& key) const {
  // The line of the enclosing field is the nearest that is known.
  ConfigReader child(object, [locate = locate_, key](const std::string&) { return locate(key); });
  child.prefix_ = prefix_ + key + ".";
  child.around_ = this;
  return child;
}

void ConfigReader::absorb(ConfigReader&& child) {
  for (const Problem& problem : child.problems_.problems()) problems_.add(problem);
}

std::vector<std::string> ConfigReader::unread() const {
  std::vector<std::string> keys;
  for (const auto& item : config_.items()) {
    if (!read_.contains(item.key())) keys.push_back(item.key());
  }
  return keys;
}

}  // namespace tessera::model
