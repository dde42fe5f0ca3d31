#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tessera::data {

/// A stretch of text in bytes, and whether a pattern matched it.
struct Span {
  std::size_t begin;
  std::size_t end;
  bool matched;
};

/// The PCRE2 spelling of an Oniguruma pattern, the dialect of tokenizer.json: \s, \w, \h with Oniguruma's meaning, nested and intersected
/// classes, \uHHHH, (?m), intervals followed by +. UserError starting with `where` for what has no equivalent.
std::string translate_oniguruma(std::string_view pattern, const std::string& where);

/// A compiled pattern over valid UTF-8, with Unicode properties; ^ and $ match at lines. Immutable: may be used from many threads.
class Regex {
 public:
  /// `pattern` in PCRE2's spelling. UserError starting with `where` when it does not compile.
  Regex(const std::string& pattern, const std::string& where);
  ~Regex();
  Regex(Regex&& other) noexcept;
  Regex& operator=(Regex&& other) noexcept;

  using Take = std::function<void(std::size_t begin, std::size_t end)>;
  /// Calls `take` for every match from left to right, searching from `start` on; after an empty match the search continues one character later.
  /// UserError when matching exceeds PCRE2's limits: patterns come from strangers' files.
  void for_each_match(std::string_view text, const Take& take, std::size_t start = 0) const;
  /// The same for the first matches only, those that are found without a look at the end of `text`: every longer text that begins with it has them
  /// too. Returns where the search for the next one starts.
  std::size_t for_each_settled_match(std::string_view text, const Take& take) const;

 private:
  struct Code;
  /// Matches from `start` on until there is none, or with `partial` until one that looks at the end; returns where the search ended.
  std::size_t search(std::string_view text, const Take& take, std::size_t start, bool partial) const;
  std::unique_ptr<Code> code_;
};

}  // namespace tessera::data
