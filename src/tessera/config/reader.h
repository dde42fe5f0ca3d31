#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tessera/config/node.h"
#include "tessera/config/registry.h"
#include "tessera/core/dtype.h"
#include "tessera/core/error.h"

/// How sections are typed: a section is a table of keys, and each key knows how to read its node into a field, or why it is not read.
/// Internal to this layer.
namespace tessera::config {

/// What reading a recipe collects.
struct Findings {
  ProblemList mistakes;
  std::vector<Problem> unsupported;
  std::vector<std::string> notes;
  std::size_t num_unknown_keys = 0;  ///< among the mistakes

  /// Each note once, however often the recipe gives cause.
  void note(std::string text);
};

/// A place in the recipe while it is read: its dotted path, for messages, and where findings go.
struct Scope {
  Findings& findings;
  std::string path;

  Scope child(std::string_view key) const { return {findings, path.empty() ? std::string(key) : path + "." + std::string(key)}; }
  /// "optimizer.lr: <what>" at the node's position.
  void mistake(const Node& node, std::string_view what, std::string rule, std::string fix) const;
  void unsupported(const Node& node, std::string_view value, Support support, std::string reason, std::string fix) const;
  void note(std::string_view text) const { findings.note(path + ": " + std::string(text)); }
};

/// The node's value for messages: quoted, cut at `longest` characters; the placeholder if it has one, hidden under a secret key.
std::string shown(const Scope& scope, const Node& node, std::size_t longest = 60);

/// Types that a key may require although its value is not used.
enum class Type : std::uint8_t { Bool, Int, Number, String, List, Map, Any };
/// Adds a mistake unless the node is null or of this type.
bool check_type(const Scope& scope, const Node& node, Type type);

// ---- reading one value: true when `value` was set; otherwise a mistake was added ----

bool read_value(const Scope& scope, const Node& node, bool& value);
bool read_value(const Scope& scope, const Node& node, std::int64_t& value);
bool read_value(const Scope& scope, const Node& node, double& value);
bool read_value(const Scope& scope, const Node& node, std::string& value);
bool read_value(const Scope& scope, const Node& node, DType& value);
/// A dtype that models compute in: fp32 or bf16.
bool read_compute_dtype(const Scope& scope, const Node& node, DType& value);
bool read_value(const Scope& scope, const Node& node, std::array<double, 2>& value);
/// A list of strings, or one string.
bool read_value(const Scope& scope, const Node& node, std::vector<std::string>& value);
bool read_value(const Scope& scope, const Node& node, std::vector<std::vector<std::string>>& value);
bool read_value(const Scope& scope, const Node& node, std::map<std::string, std::string>& value);
/// A regular expression (ECMAScript) over names of parameters.
bool read_regular_expression(const Scope& scope, const Node& node, std::string& value);

template <class T>
bool read_value(const Scope& scope, const Node& node, std::optional<T>& value) {
  T inner{};
  if (!read_value(scope, node, inner)) return false;
  value = std::move(inner);
  return true;
}

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};

/// A bound on a number, with the words for it.
struct Rule {
  std::function<bool(double)> holds;
  std::string text;
  std::string fix;
};
Rule at_least(double bound);
Rule above(double bound);
Rule within(double low, double high);  ///< both included
Rule below_one_from_zero();            ///< 0 ≤ x < 1

// ---- keys ----

template <class Section>
struct Key {
  std::string name;
  std::function<void(const Scope&, const Node&, Section&)> read;
};
template <class Section>
using Keys = std::vector<Key<Section>>;

namespace detail {

template <class T>
double number_of(const T& value) {
  if constexpr (is_optional<T>::value) return static_cast<double>(*value);
  if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(value);
  return 0;
}

}  // namespace detail

/// A key whose value becomes the member. null means the default, or nothing for an optional member.
template <class Section, class T>
Key<Section> field(std::string name, T Section::* member) {
  return {std::move(name), [member](const Scope& scope, const Node& node, Section& section) {
            if (!is_null(node)) {
              read_value(scope, node, section.*member);
            } else if constexpr (is_optional<T>::value) {
              (section.*member).reset();
            }
          }};
}

/// The same for a number that must keep a rule.
template <class Section, class T>
Key<Section> field(std::string name, T Section::* member, Rule rule) {
  return {std::move(name), [member, rule = std::move(rule)](const Scope& scope, const Node& node, Section& section) {
            if (is_null(node)) {
              if constexpr (is_optional<T>::value) (section.*member).reset();
              return;
            }
            T value{};
            if (!read_value(scope, node, value)) return;
            if (!rule.holds(detail::number_of(value))) return scope.mistake(node, shown(scope, node) + " is out of range", rule.text, rule.fix);
            section.*member = value;
          }};
}

template <class Enum>
using Choices = std::vector<std::pair<std::string_view, Enum>>;

/// Finds a name among choices: case and -/_ do not matter. Nothing (and a mistake) when it is none of them.
template <class Enum>
std::optional<Enum> read_choice(const Scope& scope, const Node& node, const Choices<Enum>& choices);

/// A key whose value is one of several names.
template <class Section, class T, class Enum>
Key<Section> choice(std::string name, T Section::* member, Choices<Enum> choices) {
  return {std::move(name), [member, choices = std::move(choices)](const Scope& scope, const Node& node, Section& section) {
            if (is_null(node)) return;
            if (const auto value = read_choice(scope, node, choices)) section.*member = *value;
          }};
}

/// A key that is accepted, type-checked, and has no effect: a note says why. null and (for booleans) false go unnoted.
template <class Section>
Key<Section> inert(std::string name, Type type, std::string reason) {
  return {std::move(name), [type, reason = std::move(reason)](const Scope& scope, const Node& node, Section&) {
            if (!check_type(scope, node, type) || is_null(node) || as_bool(node) == false) return;
            scope.note(reason);
          }};
}

/// A key that is accepted without a word: what it asks for is what Tessera does anyway, whatever its value.
template <class Section>
Key<Section> accepted(std::string name, Type type) {
  return {std::move(name), [type](const Scope& scope, const Node& node, Section&) { check_type(scope, node, type); }};
}

/// A key that may ask for what always happens; that it asks for the contrary is noted.
template <class Section>
Key<Section> always(std::string name, std::string reason) {
  return {std::move(name), [reason = std::move(reason)](const Scope& scope, const Node& node, Section&) {
            if (check_type(scope, node, Type::Bool) && as_bool(node) == false) scope.note("has no effect: " + reason);
          }};
}

/// A key that is refused by name when it asks for anything: null, false, 0, "" and the values in `harmless` pass.
template <class Section>
Key<Section> refused(std::string name, Type type, Support support, std::string reason, std::vector<std::string_view> harmless = {}) {
  return {std::move(name), [=](const Scope& scope, const Node& node, Section&) {
            if (!check_type(scope, node, type) || is_null(node) || as_bool(node) == false || as_double(node) == 0.0) return;
            if (node.is_scalar() && (node.text.empty() || std::ranges::find(harmless, node.text) != harmless.end())) return;
            if (!node.is_scalar() && node.items.empty() && node.entries.empty()) return;
            scope.unsupported(node, node.is_scalar() ? shown(scope, node) : "", support, reason, "leave it out");
          }};
}

/// Reads every entry of `node` by the table. A key that the table lacks is a mistake with a did-you-mean, and so is a node that is not a map; null is
/// an empty map.
template <class Section>
void read_section(const Scope& scope, const Node& node, const Keys<Section>& keys, Section& section);

/// A section inside a section. null leaves the member as it is.
template <class Section, class Inner>
Key<Section> section(std::string name, Inner Section::* member, Keys<Inner> keys) {
  return {std::move(name), [member, keys = std::move(keys)](const Scope& scope, const Node& node, Section& outer) {
            if (!is_null(node)) read_section(scope, node, keys, outer.*member);
          }};
}
template <class Section, class Inner>
Key<Section> section(std::string name, std::optional<Inner> Section::* member, Keys<Inner> keys) {
  return {std::move(name), [member, keys = std::move(keys)](const Scope& scope, const Node& node, Section& outer) {
            if (is_null(node)) return;
            outer.*member = Inner{};
            read_section(scope, node, keys, *(outer.*member));
          }};
}

/// The `_target_` entry for tables of sections that have been dispatched on it already.
template <class Section>
Key<Section> target_key() {
  return {"_target_", [](const Scope&, const Node&, Section&) {}};
}

template <class Section>
Keys<Section> operator+(Keys<Section> left, const Keys<Section>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// Whether the section says what it builds. A `_target_` of null stands for the default, as if it were not there.
bool has_target(const Node& node);
/// The registry's entry for the section's `_target_` (or for a plain string in its place). Absent or null: nullptr, and nothing is said.
/// Unknown: a mistake. Not supported: recorded as such, and the entry is returned so that the rest can be read as far as it is known.
const Target* read_target(const Scope& scope, const Node& node, TargetKind kind);
/// The same, and `otherwise` for a section that does not say what it builds.
const Target* read_target(const Scope& scope, const Node& node, TargetKind kind, std::string_view otherwise);

// ---- implementation of the templates ----

std::string normalized_choice(std::string_view name);
void report_unknown_choice(const Scope& scope, const Node& node, std::span<const std::string> names);
void report_unknown_key(const Scope& scope, const Entry& entry, std::span<const std::string> known);

template <class Enum>
std::optional<Enum> read_choice(const Scope& scope, const Node& node, const Choices<Enum>& choices) {
  const std::string wanted = node.is_scalar() ? normalized_choice(node.text) : "";
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (node.is_scalar() && normalized_choice(name) == wanted) return value;
    names.emplace_back(name);
  }
  report_unknown_choice(scope, node, names);
  return std::nullopt;
}

template <class Section>
void read_section(const Scope& scope, const Node& node, const Keys<Section>& keys, Section& section) {
  if (is_null(node)) return;
  if (!check_type(scope, node, Type::Map)) return;
  for (const Entry& entry : node.entries) {
    const auto key = std::ranges::find(keys, entry.key, &Key<Section>::name);
    if (key != keys.end()) {
      key->read(scope.child(entry.key), entry.value, section);
      continue;
    }
    std::vector<std::string> known;
    for (const Key<Section>& candidate : keys) known.push_back(candidate.name);
    report_unknown_key(scope, entry, known);
  }
}

}  // namespace tessera::config
