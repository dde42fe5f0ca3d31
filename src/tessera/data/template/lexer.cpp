// Jinja's lexer with trim_blocks and lstrip_blocks (https://github.com/pallets/jinja/blob/main/src/jinja2/lexer.py).
#include "tessera/data/template/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "tessera/core/text.h"
#include "tessera/data/template/value.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data::jinja {
namespace {

/// Line ends become \n, and one at the very end is dropped.
std::string prepared(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

bool all_spaces(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, num_bytes] = code_point_at(text, i);
    if (!is_white_space(value)) return false;
    i += num_bytes;
  }
  return true;
}

std::string_view without_trailing_spaces(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, num_bytes] = code_point_at(text, i);
    i += num_bytes;
    if (!is_white_space(value)) end = i;
  }
  return text.substr(0, end);
}

constexpr std::array<std::string_view, 27> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "=", ">",
                                                         "<",  "(",  ")",  "[",  "]",  "{",  "}", "|", ",", ".", ":", ";", "!"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(prepared(source)) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) next_text();
    add(TokenKind::End, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw TemplateError(message, line_); }
  std::string_view rest() const { return std::string_view(source_).substr(position_); }
  char peek(std::size_t ahead = 0) const { return position_ + ahead < source_.size() ? source_[position_ + ahead] : '\0'; }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void advance(std::size_t count) {
    const std::string_view passed = rest().substr(0, count);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) line_starting_ = passed.back() == '\n';
    position_ += passed.size();
  }
  void skip_spaces() {
    std::size_t count = 0;
    while (count < rest().size() && is_space(rest()[count])) ++count;
    advance(count);
  }

  /// Text up to the next tag, and the tag.
  void next_text() {
    std::size_t tag = 0;
    while (tag + 1 < rest().size() && !(rest()[tag] == '{' && (rest()[tag + 1] == '{' || rest()[tag + 1] == '%' || rest()[tag + 1] == '#'))) ++tag;
    if (tag + 1 >= rest().size()) {
      add(TokenKind::Text, std::string(rest()));
      advance(rest().size());
      return;
    }
    const char kind = rest()[tag + 1];
    add_text(rest().substr(0, tag), tag + 2 < rest().size() ? rest()[tag + 2] : '\0', kind == '{');
    advance(tag + 2);
    if (kind == '#') return comment();
    if (peek() == '-' || (peek() == '+' && kind == '%')) advance(1);
    if (kind == '%' && raw_block()) return;
    add(kind == '{' ? TokenKind::VariableBegin : TokenKind::BlockBegin, "");
    expression(kind == '{' ? "}}" : "%}", kind == '{' ? TokenKind::VariableEnd : TokenKind::BlockEnd);
  }

  /// `sign` stands behind the tag's brace: - takes all white space before the tag away; without + a statement or comment that is alone on its line
  /// loses its indentation.
  void add_text(std::string_view text, char sign, bool variable) {
    if (sign == '-') {
      text = without_trailing_spaces(text);
    } else if (sign != '+' && !variable) {
      const std::size_t line_start = text.rfind('\n') + 1;
      if ((line_start > 0 || line_starting_) && all_spaces(text.substr(line_start))) text = text.substr(0, line_start);
    }
    if (!text.empty()) add(TokenKind::Text, std::string(text));
  }

  /// Passes over a tag's end; - takes all white space after it away, and a statement or comment takes the newline after it with it.
  void pass_end(char sign, std::size_t size, bool trims_newline) {
    advance(size);
    if (sign == '-')
      skip_spaces();
    else if (sign != '+' && trims_newline && peek() == '\n')
      advance(1);
  }

  void comment() {
    const std::size_t close = rest().find("#}");
    if (close == std::string_view::npos) fail("a comment is not closed");
    const char sign = close > 0 ? rest()[close - 1] : '\0';
    advance(close);
    pass_end(sign, 2, true);
  }

  /// {% raw %} … {% endraw %}, when the statement that begins here is one.
  bool raw_block() {
    std::size_t at = position_;
    const auto spaces = [&] {
      while (at < source_.size() && is_space(source_[at])) ++at;
    };
    const auto accept = [&](std::string_view text) {
      if (!std::string_view(source_).substr(at).starts_with(text)) return false;
      at += text.size();
      return true;
    };
    spaces();
    if (!accept("raw")) return false;
    spaces();
    const bool dash = accept("-%}");
    if (!dash && !accept("%}")) return false;
    advance(at - position_);
    if (dash) skip_spaces();
    raw_text();
    return true;
  }

  void raw_text() {
    for (std::size_t tag = rest().find("{%"); tag != std::string_view::npos; tag = rest().find("{%", tag + 1)) {
      std::size_t at = position_ + tag + 2;
      const char begin_sign = at < source_.size() ? source_[at] : '\0';
      if (begin_sign == '-' || begin_sign == '+') ++at;
      while (at < source_.size() && is_space(source_[at])) ++at;
      if (!std::string_view(source_).substr(at).starts_with("endraw")) continue;
      at += 6;
      while (at < source_.size() && is_space(source_[at])) ++at;
      const char end_sign = at < source_.size() ? source_[at] : '\0';
      if (end_sign == '-' || end_sign == '+') ++at;
      if (!std::string_view(source_).substr(at).starts_with("%}")) continue;
      add_text(rest().substr(0, tag), begin_sign, false);
      advance(at - position_);
      return pass_end(end_sign, 2, true);
    }
    fail("a raw block is not closed");
  }

  /// Tokens up to the tag's end. Within brackets the end's characters are brackets.
  void expression(std::string_view end, TokenKind end_kind) {
    std::string open;
    while (true) {
      skip_spaces();
      if (position_ >= source_.size()) fail(fmt::format("unexpected end of template, expected '{}'", end));
      const bool signed_end = (peek() == '-' || (peek() == '+' && end == "%}")) && rest().substr(1).starts_with(end);
      if (open.empty() && (signed_end || rest().starts_with(end))) {
        add(end_kind, "");
        const char sign = signed_end ? peek() : '\0';
        return pass_end(sign, signed_end ? 3 : 2, end == "%}");
      }
      if (std::isdigit(static_cast<unsigned char>(peek())) != 0)
        number();
      else if (peek() == '"' || peek() == '\'')
        string();
      else if (!name())
        operator_token(open);
    }
  }

  void operator_token(std::string& open) {
    const auto* found = std::find_if(kOperators.begin(), kOperators.end(), [&](std::string_view op) { return rest().starts_with(op); });
    if (found == kOperators.end()) fail(fmt::format("unexpected character '{}'", rest().substr(0, code_point_at(rest(), 0).num_bytes)));
    const char c = found->front();
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail(fmt::format("unexpected '{}'", c));
      if (open.back() != c) fail(fmt::format("unexpected '{}', expected '{}'", c, open.back()));
      open.pop_back();
    }
    add(TokenKind::Op, std::string(*found));
    advance(found->size());
  }

  bool name() {
    std::size_t size = 0;
    while (size < rest().size()) {
      const auto [value, num_bytes] = code_point_at(rest(), size);
      if (value != '_' && !is_word_character(value)) break;
      size += num_bytes;
    }
    if (size == 0) return false;
    add(TokenKind::Name, std::string(rest().substr(0, size)));
    advance(size);
    return true;
  }

  std::size_t digits_at(std::size_t ahead) const {
    std::size_t size = 0;
    while (std::isdigit(static_cast<unsigned char>(peek(ahead + size))) != 0 || (size > 0 && peek(ahead + size) == '_')) ++size;
    return size;
  }

  void number() {
    std::size_t size = digits_at(0);
    bool real = false;
    if (peek(size) == '.' && digits_at(size + 1) > 0) {
      size += 1 + digits_at(size + 1);
      real = true;
    }
    if (peek(size) == 'e' || peek(size) == 'E') {
      const std::size_t sign = peek(size + 1) == '+' || peek(size + 1) == '-' ? 1 : 0;
      if (const std::size_t exponent = digits_at(size + 1 + sign); exponent > 0) {
        size += 1 + sign + exponent;
        real = true;
      }
    }
    std::string text(rest().substr(0, size));
    std::erase(text, '_');
    add(real ? TokenKind::Real : TokenKind::Integer, std::move(text));
    advance(size);
  }

  void string() {
    const char quote = peek();
    std::size_t size = 1;
    while (position_ + size < source_.size() && peek(size) != quote) size += peek(size) == '\\' ? 2 : 1;
    if (position_ + size >= source_.size()) fail("a string is not closed");
    add(TokenKind::String, unescaped(rest().substr(1, size - 1)));
    advance(size + 1);
  }

  /// Python's escapes; an unknown one stays as it is.
  std::string unescaped(std::string_view text) const {
    constexpr std::string_view kNames = "ntrbfav\\'\"";
    constexpr std::string_view kValues = "\n\t\r\b\f\a\v\\'\"";
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      if (const std::size_t known = kNames.find(c); known != std::string_view::npos) {
        out += kValues[known];
      } else if (c >= '0' && c <= '7') {
        char32_t value = 0;
        std::size_t taken = 0;
        for (; taken < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++taken, ++i)
          value = value * 8 + static_cast<char32_t>(text[i] - '0');
        --i;
        append_utf8(out, value);
      } else if (digits > 0) {
        append_utf8(out, hex(text.substr(i + 1, digits), digits));
        i += digits;
      } else if (c != '\n') {
        out.append("\\").append(1, c);
      }
    }
    return out;
  }

  char32_t hex(std::string_view digits, std::size_t expected) const {
    char32_t value = 0;
    for (const char c : digits) {
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) fail("a string holds a broken escape");
      value = value * 16 + static_cast<char32_t>(std::isdigit(static_cast<unsigned char>(c)) != 0 ? c - '0' : std::tolower(c) - 'a' + 10);
    }
    if (digits.size() != expected || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) fail("a string holds a broken escape");
    return value;
  }

  std::string source_;
  std::size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  ///< what was passed last ended a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (const std::size_t invalid = first_invalid_utf8(source); invalid != std::string_view::npos)
    throw TemplateError(fmt::format("byte {} is not valid UTF-8", invalid), 1);
  return Lexer(source).run();
}

}  // namespace tessera::data::jinja
