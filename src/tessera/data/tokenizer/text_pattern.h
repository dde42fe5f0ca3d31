#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/data/tokenizer/json_section.h"
#include "tessera/data/tokenizer/regex.h"

namespace tessera::data {

/// tokenizer.json's `pattern`: {"String": …}, taken literally, or {"Regex": …}.
class TextPattern {
 public:
  explicit TextPattern(std::string literal) : pattern_(std::move(literal)) {}
  explicit TextPattern(Regex regex) : pattern_(std::move(regex)) {}

  /// Calls `take(begin, end)` for every match, left to right.
  void for_each_match(std::string_view text, const Regex::Take& take) const;
  /// Null for a literal.
  const Regex* regex() const { return std::get_if<Regex>(&pattern_); }
  std::string replace_all(std::string_view text, std::string_view replacement) const;

 private:
  std::variant<std::string, Regex> pattern_;
};

/// Reads `section`'s field "pattern".
TextPattern parse_pattern(const JsonSection& section);

/// What to do with the matches of a pattern when a text is split there, in tokenizer.json's words.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };
/// Reads `section`'s field "behavior", `fallback` when it is absent.
SplitBehavior parse_behavior(const JsonSection& section, SplitBehavior fallback);

/// Joins or drops stretches that cover a text completely, according to the behaviour. Empty pieces are dropped.
std::vector<Span> split_spans(const std::vector<Span>& spans, SplitBehavior behavior);

}  // namespace tessera::data
