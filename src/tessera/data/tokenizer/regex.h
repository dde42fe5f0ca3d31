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

  /// Calls `take(begin, end)` for every match from left to right; after an empty match the search goes on one character later.
  /// UserError when matching exceeds PCRE2's limits: patterns come from strangers' files.
  void for_each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& take) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace tessera::data
