#include "tessera/data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

#include "tessera/core/error.h"
#include "tessera/data/tokenizer/json_section.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data {

struct Regex::Code {
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, Free> compiled;
  bool jit = false;
  std::string where;
};

namespace {

constexpr std::size_t kLongestPattern = 1U << 16;

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

/// One search from `start`. The subject is known to be valid UTF-8. A match that overflows the JIT's stack is done again by the interpreter.
int match(const pcre2_code* code, bool jit, std::string_view text, std::size_t start, std::uint32_t options, pcre2_match_data* data) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  if (jit) {
    const int result = pcre2_jit_match(code, subject, text.size(), start, options, data, nullptr);
    if (result != PCRE2_ERROR_JIT_STACKLIMIT) return result;
  }
  return pcre2_match(code, subject, text.size(), start, options | PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, nullptr);
}

}  // namespace

Regex::Regex(const std::string& pattern, const std::string& where) : code_(std::make_unique<Code>()) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(pcre2_compile_context_create(nullptr),
                                                                                              pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(context.get(), kLongestPattern);
  constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  code_->compiled.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), kOptions, &error, &offset, context.get()));
  if (!code_->compiled)
    throw UserError(
        {where, fmt::format("the pattern {} is not supported: {} (at byte {})", pattern, pcre2_message(error), offset), "", kOtherTokenizer});
  code_->where = where;
  code_->jit = pcre2_jit_compile(code_->compiled.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&& other) noexcept = default;
Regex& Regex::operator=(Regex&& other) noexcept = default;

void Regex::for_each_match(std::string_view text, const Take& take, std::size_t start) const { search(text, take, start, false); }

std::size_t Regex::for_each_settled_match(std::string_view text, const Take& take) const { return search(text, take, 0, true); }

std::size_t Regex::search(std::string_view text, const Take& take, std::size_t start, bool partial) const {
  const pcre2_code* code = code_->compiled.get();
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data(pcre2_match_data_create(1, nullptr));
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
  while (start <= text.size()) {
    const int result = match(code, code_->jit, text, start, partial ? PCRE2_PARTIAL_HARD : 0, data.get());
    if (result == PCRE2_ERROR_NOMATCH || result == PCRE2_ERROR_PARTIAL) return start;
    if (result < 0) throw UserError({code_->where, "the pattern is too costly to match: " + pcre2_message(result), "", kOtherTokenizer});
    // \K may report a match that begins after its end; there is nothing to take then.
    const std::size_t begin = range[0];
    const std::size_t end = std::max(begin, static_cast<std::size_t>(range[1]));
    take(begin, end);
    start = end > start || begin < end ? end : start + (start < text.size() ? code_point_at(text, start).num_bytes : 1);
  }
  return start;
}

}  // namespace tessera::data
