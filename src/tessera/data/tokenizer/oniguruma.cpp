// The differences between Oniguruma's Ruby-like dialect (https://github.com/kkos/oniguruma/blob/master/doc/RE) and PCRE2's that matter to
// patterns without capture groups.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/data/tokenizer/json_section.h"
#include "tessera/data/tokenizer/regex.h"

namespace tessera::data {
namespace {

// White_Space: PCRE2's own \s also takes U+180E.
constexpr std::string_view kSpaceItems = R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// Alphabetic, Mark, Decimal_Number, Connector_Punctuation: PCRE2's own \w takes all of N, and of these neither M nor Pc. The ranges are the
// circled letters, alphabetic symbols.
constexpr std::string_view kWordItems = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view kHexItems = "0-9a-fA-F";

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kLongPropertyNames = {{{"letter", "L"},
                                                                                               {"mark", "M"},
                                                                                               {"number", "N"},
                                                                                               {"digit", "Nd"},
                                                                                               {"punctuation", "P"},
                                                                                               {"punct", "P"},
                                                                                               {"symbol", "S"},
                                                                                               {"separator", "Z"},
                                                                                               {"uppercase_letter", "Lu"},
                                                                                               {"lowercase_letter", "Ll"}}};

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string run() {
    std::string out;
    while (!at_end()) {
      if (peek() == '\\')
        out += escape(/*in_class=*/false);
      else if (peek() == '[')
        out += rendered(character_class(0));
      else if (looking_at("(?"))
        out += group_options();
      else if (peek() == '{')
        out += interval();
      else
        out += next();
    }
    return out;
  }

 private:
  struct Class {
    bool negated = false;
    std::vector<std::string> conjuncts;  ///< items of each operand of &&; a nested class that stays whole begins with '['
  };

  bool at_end() const { return position_ >= pattern_.size(); }
  char peek(std::size_t ahead = 0) const { return position_ + ahead < pattern_.size() ? pattern_[position_ + ahead] : '\0'; }
  bool looking_at(std::string_view text) const { return pattern_.substr(position_).starts_with(text); }
  char next() {
    if (at_end()) refuse("it ends in the middle");
    return pattern_[position_++];
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError({where_, fmt::format("the pattern {} is not supported: {}", pattern_, why), "", kOtherTokenizer});
  }

  std::string escape(bool in_class) {
    ++position_;
    const char c = next();
    const auto set = [&](std::string_view items) { return in_class ? std::string(items) : fmt::format("[{}]", items); };
    switch (c) {
      case 's':
        return set(kSpaceItems);
      case 'w':
        return set(kWordItems);
      case 'h':
        return set(kHexItems);
      case 'S':
      case 'W':
        if (in_class) return std::string("\\") + c;
        return fmt::format("[^{}]", c == 'S' ? kSpaceItems : kWordItems);
      case 'u':
        return code_point();
      case 'p':
      case 'P':
        return property(c);
      default:
        return std::string("\\") + c;
    }
  }

  std::string code_point() {
    const std::string_view digits = pattern_.substr(position_, 4);
    if (digits.size() < 4 || !std::all_of(digits.begin(), digits.end(), [](unsigned char d) { return std::isxdigit(d) != 0; }))
      refuse("\\u needs four hexadecimal digits");
    position_ += 4;
    return fmt::format("\\x{{{}}}", digits);
  }

  std::string property(char p) {
    if (peek() != '{') return std::string("\\") + p;
    const std::size_t close = pattern_.find('}', position_);
    if (close == std::string_view::npos) refuse("\\p{ is not closed");
    const std::string name(pattern_.substr(position_ + 1, close - position_ - 1));
    position_ = close + 1;
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto* known = std::find_if(kLongPropertyNames.begin(), kLongPropertyNames.end(), [&](const auto& entry) { return entry.first == lower; });
    return fmt::format("\\{}{{{}}}", p, known == kLongPropertyNames.end() ? std::string_view(name) : known->second);
  }

  /// In Oniguruma's dialect m lets the dot match newlines, which PCRE2 calls s.
  std::string group_options() {
    std::string out;
    out += next();
    out += next();
    while (!at_end() && (std::isalpha(static_cast<unsigned char>(peek())) != 0 || peek() == '-')) {
      const char c = next();
      if (c == 'x') refuse("extended groups");
      out += c == 'm' ? 's' : c;
    }
    return out;
  }

  /// A + after {n,m} repeats the interval here and makes it possessive there; with n ≤ 1 the repetition is again an interval.
  std::string interval() {
    const std::size_t close = pattern_.find('}', position_);
    if (close == std::string_view::npos) return std::string(1, next());
    const std::string body(pattern_.substr(position_, close + 1 - position_));
    position_ = close + 1;
    if (peek() != '+') return body;
    ++position_;
    if (body.starts_with("{0,") || body.starts_with("{,")) return "*";
    if (body.starts_with("{1,")) return "+";
    refuse("an interval followed by +");
  }

  Class character_class(int depth) {
    if (depth > 20) refuse("classes nested too deep");
    ++position_;
    Class result;
    if (peek() == '^') {
      result.negated = true;
      ++position_;
    }
    std::string items;
    if (peek() == ']') items += "\\" + std::string(1, next());
    while (peek() != ']') {
      if (at_end()) refuse("a class is not closed");
      if (looking_at("&&")) {
        position_ += 2;
        result.conjuncts.push_back(std::exchange(items, {}));
      } else if (peek() == '\\') {
        items += escape(/*in_class=*/true);
      } else if (looking_at("[:")) {
        items += posix_bracket();
      } else if (peek() == '[') {
        add_nested(character_class(depth + 1), items);
      } else {
        items += next();
      }
    }
    ++position_;
    result.conjuncts.push_back(std::move(items));
    return result;
  }

  std::string posix_bracket() {
    const std::size_t close = pattern_.find(":]", position_);
    if (close == std::string_view::npos) refuse("a POSIX bracket is not closed");
    const std::string text(pattern_.substr(position_, close + 2 - position_));
    position_ = close + 2;
    return text;
  }

  void add_nested(const Class& nested, std::string& items) {
    if (!nested.negated && nested.conjuncts.size() == 1 && !nested.conjuncts[0].starts_with("[^")) {
      items += nested.conjuncts[0];
    } else if (items.empty() && nested.conjuncts.size() == 1 && (peek() == ']' || looking_at("&&"))) {
      items = fmt::format("[^{}]", nested.conjuncts[0]);
    } else {
      refuse("a union with a negated or intersected class");
    }
  }

  static std::string operand(const std::string& items) { return items.starts_with("[^") ? items : fmt::format("[{}]", items); }

  std::string rendered(const Class& c) const {
    if (c.conjuncts.size() == 1 && !c.conjuncts[0].starts_with("[^")) return fmt::format("[{}{}]", c.negated ? "^" : "", c.conjuncts[0]);
    std::string all;
    for (std::size_t i = 0; i + 1 < c.conjuncts.size(); ++i) all += fmt::format("(?={})", operand(c.conjuncts[i]));
    all += operand(c.conjuncts.back());
    return c.negated ? fmt::format("(?:(?!{})[\\x{{0}}-\\x{{10ffff}}])", all) : fmt::format("(?:{})", all);
  }

  std::string_view pattern_;
  const std::string& where_;
  std::size_t position_ = 0;
};

}  // namespace

std::string translate_oniguruma(std::string_view pattern, const std::string& where) { return Translator(pattern, where).run(); }

}  // namespace tessera::data
