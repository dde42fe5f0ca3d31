#include "tessera/config/reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <iterator>
#include <regex>

#include "tessera/config/interpolate.h"
#include "tessera/core/text.h"

namespace tessera::config {

void Findings::note(std::string text) {
  if (std::ranges::find(notes, text) == notes.end()) notes.push_back(std::move(text));
}

void Scope::mistake(const Node& node, std::string_view what, std::string rule, std::string fix) const {
  findings.mistakes.add({to_string(node.position), path + ": " + std::string(what), std::move(rule), std::move(fix)});
}

void Scope::unsupported(const Node& node, std::string_view value, Support support, std::string reason, std::string fix) const {
  const std::string subject = value.empty() ? path : path + ": " + std::string(value);
  findings.unsupported.push_back({to_string(node.position), subject + " is " + std::string(to_string(support)), std::move(reason), std::move(fix)});
}

namespace {

bool is_below_secret_key(std::string_view path) {
  return std::ranges::any_of(split(path, '.'), [](const std::string& key) { return is_secret(key); });
}

}  // namespace

std::string shown(const Scope& scope, const Node& node, std::size_t longest) {
  if (node.is_map()) return "a section";
  if (node.is_sequence()) return "a list of " + std::to_string(node.items.size());
  if (node.kind == Node::Kind::Null) return "null";
  if (is_below_secret_key(scope.path) && !node.placeholder) return "\"******\"";
  std::string text = node.placeholder ? *node.placeholder : node.text;
  if (text.size() > longest) {
    std::size_t cut = longest;
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
    text = text.substr(0, cut) + "…";
  }
  std::ranges::replace(text, '\n', ' ');
  return as_double(node) || as_bool(node) ? text : "\"" + text + "\"";
}

bool check_type(const Scope& scope, const Node& node, Type type) {
  if (is_null(node)) return true;
  const auto demand = [&](bool holds, std::string_view wanted, std::string fix) {
    if (!holds) scope.mistake(node, shown(scope, node) + " is not " + std::string(wanted), "", std::move(fix));
    return holds;
  };
  const std::string key = scope.path.substr(scope.path.rfind('.') + 1);
  switch (type) {
    case Type::Bool:
      return demand(as_bool(node).has_value(), "true or false", "write " + key + ": true or " + key + ": false");
    case Type::Int:
      return demand(as_int(node).has_value(), "a whole number", "write digits alone, such as " + key + ": 8");
    case Type::Number:
      return demand(as_double(node).has_value(), "a number", "write a number such as 8, 0.1 or 1e-5");
    case Type::String:
      return demand(node.is_scalar(), "text", "write one text, such as " + key + ": \"…\"");
    case Type::List:
      return demand(node.is_sequence(), "a list", "write " + key + ": [FIRST, SECOND], or a line \"- FIRST\" for each item");
    case Type::Map:
      return demand(node.is_map(), "a section (key: value lines)", "write " + key + ": {KEY: VALUE}, or indented lines KEY: VALUE below it");
    case Type::Any:
      return true;
  }
  return true;
}

namespace {

template <class T>
bool store(const Scope& scope, const Node& node, const std::optional<T>& read, Type type, T& value) {
  if (!read) {
    check_type(scope, node, type);
    return false;
  }
  value = *read;
  return true;
}

}  // namespace

bool read_value(const Scope& scope, const Node& node, bool& value) { return store(scope, node, as_bool(node), Type::Bool, value); }
bool read_value(const Scope& scope, const Node& node, std::int64_t& value) { return store(scope, node, as_int(node), Type::Int, value); }

bool read_value(const Scope& scope, const Node& node, double& value) {
  if (!store(scope, node, as_double(node), Type::Number, value)) return false;
  if (std::isfinite(value)) return true;
  scope.mistake(node, shown(scope, node) + " is not finite", "numbers of a recipe are finite", "write a number such as 0.1 or 1e-5, or leave it out");
  return false;
}

bool read_value(const Scope& scope, const Node& node, std::string& value) { return store(scope, node, as_string(node), Type::String, value); }

bool read_value(const Scope& scope, const Node& node, DType& value) {
  std::string name;
  if (!read_value(scope, node, name)) return false;
  const auto dtype = dtype_from_torch(name);
  if (!dtype) {
    scope.mistake(node, shown(scope, node) + " is not a dtype",
                  "dtypes are float32, bfloat16, float16, float64 and their short names fp32, bf16, fp16", "use bfloat16 or float32");
    return false;
  }
  value = *dtype;
  return true;
}

bool read_compute_dtype(const Scope& scope, const Node& node, DType& value) {
  DType dtype{};
  if (!read_value(scope, node, dtype)) return false;
  if (dtype != DType::F32 && dtype != DType::BF16) {
    scope.unsupported(node, shown(scope, node), Support::NotSupported, "models train in float32 or bfloat16", "use bfloat16");
    return false;
  }
  value = dtype;
  return true;
}

bool read_value(const Scope& scope, const Node& node, std::array<double, 2>& value) {
  if (!node.is_sequence() || node.items.size() != 2) {
    scope.mistake(node, shown(scope, node) + " is not a list of two numbers", "both are given, or neither", "write it as [0.9, 0.999]");
    return false;
  }
  std::array<double, 2> read{};
  for (std::size_t i = 0; i < 2; ++i) {
    if (!read_value(scope.child(std::to_string(i)), node.items[i], read[i])) return false;
  }
  value = read;
  return true;
}

bool read_value(const Scope& scope, const Node& node, std::vector<std::string>& value) {
  if (const auto single = as_string(node)) {
    value = {*single};
    return true;
  }
  if (!node.is_sequence()) {
    scope.mistake(node, shown(scope, node) + " is neither text nor a list of texts", "", "write one text, or [FIRST, SECOND]");
    return false;
  }
  std::vector<std::string> read(node.items.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (is_null(node.items[i])) {
      scope.child(std::to_string(i)).mistake(node.items[i], "is empty", "a list of texts has no empty items", "remove the item, or write its text");
      return false;
    }
    if (!read_value(scope.child(std::to_string(i)), node.items[i], read[i])) return false;
  }
  value = std::move(read);
  return true;
}

bool read_value(const Scope& scope, const Node& node, std::vector<std::vector<std::string>>& value) {
  if (!node.is_sequence()) {
    scope.mistake(node, shown(scope, node) + " is not a list of lists", "", "write it as [[FIRST, SECOND], [THIRD]]");
    return false;
  }
  std::vector<std::vector<std::string>> read(node.items.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (!read_value(scope.child(std::to_string(i)), node.items[i], read[i])) return false;
  }
  value = std::move(read);
  return true;
}

bool read_value(const Scope& scope, const Node& node, std::map<std::string, std::string>& value) {
  if (!check_type(scope, node, Type::Map)) return false;
  std::map<std::string, std::string> read;
  for (const Entry& entry : node.entries) {
    if (is_null(entry.value)) continue;
    if (!read_value(scope.child(entry.key), entry.value, read[entry.key])) return false;
  }
  value = std::move(read);
  return true;
}

bool read_regular_expression(const Scope& scope, const Node& node, std::string& value) {
  std::string read;
  if (!read_value(scope, node, read)) return false;
  // Compiling and searching recurse: very long ones end a process without a word.
  constexpr std::size_t kLongest = 1000;
  if (read.size() > kLongest) {
    scope.mistake(node, fmt::format("a regular expression of {} characters", read.size()), fmt::format("it has at most {}", kLongest),
                  "write several patterns");
    return false;
  }
  try {
    (void)std::regex(read);
  } catch (const std::regex_error& error) {
    scope.mistake(node, shown(scope, node) + " is not a regular expression (" + error.what() + ")",
                  "names of parameters are searched for ECMAScript regular expressions",
                  "close every bracket, and write \\ before a character that stands for itself");
    return false;
  }
  value = std::move(read);
  return true;
}

namespace {

std::string number_text(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

Rule at_least(double bound) {
  return {[bound](double x) { return x >= bound; }, "it is at least " + number_text(bound), "use " + number_text(bound) + " or more"};
}
Rule above(double bound) {
  return {[bound](double x) { return x > bound; }, "it is greater than " + number_text(bound), "use a number above " + number_text(bound)};
}
Rule within(double low, double high) {
  return {[low, high](double x) { return x >= low && x <= high; }, "it is between " + number_text(low) + " and " + number_text(high),
          "use a number from " + number_text(low) + " to " + number_text(high)};
}
Rule below_one_from_zero() {
  return {[](double x) { return x >= 0 && x < 1; }, "it is at least 0 and less than 1", "use a share such as 0.1"};
}

std::string normalized_choice(std::string_view name) {
  std::string result = to_lower(name);
  std::ranges::replace(result, '-', '_');
  return result;
}

void report_unknown_choice(const Scope& scope, const Node& node, std::span<const std::string> names) {
  const std::string otherwise = "use one of these, or leave it out";
  scope.mistake(node, "unknown value " + shown(scope, node), fmt::format("one of {}", fmt::join(names, ", ")),
                node.is_scalar() ? did_you_mean(node.text, names, otherwise) : otherwise);
}

void report_unknown_key(const Scope& scope, const Entry& entry, std::span<const std::string> known) {
  // A long list helps nobody; then the suggestion has to do.
  constexpr std::size_t longest_list = 24;
  std::vector<std::string> shown_names;
  std::ranges::copy_if(known, std::back_inserter(shown_names), [](const std::string& name) { return !name.starts_with('_'); });
  const std::string section = scope.path.empty() ? "a recipe" : scope.path;
  ++scope.findings.num_unknown_keys;
  scope.findings.mistakes.add({to_string(entry.position), scope.child(entry.key).path + ": unknown key",
                               known.size() <= longest_list ? fmt::format("{} has {}", section, fmt::join(shown_names, ", ")) : "",
                               did_you_mean(entry.key, known, "remove it; no key of " + section + " resembles it")});
}

bool has_target(const Node& node) {
  const Node* name = node.find("_target_");
  return name && !is_null(*name);
}

const Target* read_target(const Scope& scope, const Node& node, TargetKind kind, std::string_view otherwise) {
  return node.is_map() && !has_target(node) ? find_target(kind, otherwise) : read_target(scope, node, kind);
}

const Target* read_target(const Scope& scope, const Node& node, TargetKind kind) {
  const Node* name = node.is_map() ? node.find("_target_") : &node;
  if (!name || is_null(*name)) return nullptr;
  const Scope at = node.is_map() ? scope.child("_target_") : scope;
  if (!name->is_scalar()) {
    at.mistake(*name, shown(at, *name) + " is not a name", "a target is the name of what is to be built", "write one name, as a text");
    return nullptr;
  }
  constexpr std::size_t longest_name = 200;
  const Target* target = find_target(kind, name->text);
  if (!target) {
    const std::vector<std::string> near = nearest_targets(kind, name->text);
    at.mistake(*name, "unknown " + std::string(to_string(kind)) + " " + shown(at, *name, longest_name),
               "targets are looked up in a table; Tessera runs no Python",
               near.empty() ? "leave it out" : fmt::format("did you mean {}?", fmt::join(near, ", ")));
    return nullptr;
  }
  if (target->support != Support::Supported)
    at.unsupported(*name, shown(at, *name, longest_name), target->support, std::string(target->reason), instead_of(*target));
  return target;
}

}  // namespace tessera::config
