#include "tessera/config/interpolate.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "tessera/core/text.h"

namespace tessera::config {

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

namespace {

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// One `${…}` or `$NAME`.
struct Placeholder {
  std::size_t begin = 0;
  std::size_t end = 0;  ///< one past its last character
  std::string_view variable;
  std::optional<std::string_view> fallback;
};

std::optional<Placeholder> read_braced(std::string_view text, std::size_t dollar) {
  const std::size_t close = text.find('}', dollar);
  if (close == std::string_view::npos) return std::nullopt;
  std::string_view inside = trim(text.substr(dollar + 2, close - dollar - 2));
  if (inside.starts_with("oc.env:")) inside = trim(inside.substr(7));
  Placeholder result{dollar, close + 1, inside, std::nullopt};
  if (const std::size_t comma = inside.find(','); comma != std::string_view::npos) {
    result.variable = trim(inside.substr(0, comma));
    result.fallback = trim(inside.substr(comma + 1));
  }
  return result;
}

/// Names may have dotted parts, as AutoModel allows; a final dot is punctuation.
std::optional<Placeholder> read_bare(std::string_view text, std::size_t dollar) {
  std::size_t end = dollar + 1;
  if (end >= text.size() || !starts_name(text[end])) return std::nullopt;
  while (end < text.size() && (continues_name(text[end]) || (text[end] == '.' && end + 1 < text.size() && continues_name(text[end + 1])))) ++end;
  return Placeholder{dollar, end, text.substr(dollar + 1, end - dollar - 1), std::nullopt};
}

std::optional<Placeholder> next_placeholder(std::string_view text, std::size_t from) {
  for (std::size_t dollar = text.find('$', from); dollar != std::string_view::npos; dollar = text.find('$', dollar + 1)) {
    const bool braced = dollar + 1 < text.size() && text[dollar + 1] == '{';
    if (auto found = braced ? read_braced(text, dollar) : read_bare(text, dollar)) return found;
  }
  return std::nullopt;
}

std::optional<std::string> value_of(const Placeholder& placeholder, const Environment& environment) {
  if (!placeholder.variable.empty()) {
    if (auto value = environment(placeholder.variable)) return value;
  }
  if (placeholder.fallback) return std::string(*placeholder.fallback);
  return std::nullopt;
}

void interpolate_scalar(Node& node, const Environment& environment, ProblemList& problems) {
  const std::string written = node.text;
  std::string result;
  std::size_t done = 0;
  while (const auto placeholder = next_placeholder(written, done)) {
    result.append(written, done, placeholder->begin - done);
    done = placeholder->end;
    if (const auto value = value_of(*placeholder, environment)) {
      result += *value;
      continue;
    }
    const std::string name(placeholder->variable);
    problems.add({to_string(node.position),
                  written.substr(placeholder->begin, placeholder->end - placeholder->begin) + ": the environment variable " + name + " is not set",
                  "placeholders are filled from the environment before the recipe is read", "set " + name + ", or write ${" + name + ",default}"});
  }
  if (done == 0) return;
  result.append(written, done);
  node.text = std::move(result);
  node.placeholder = written;
}

/// "hfToken_2" -> hf, token, 2.
std::vector<std::string> words_of(std::string_view key) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < key.size(); ++i) {
    const auto c = static_cast<unsigned char>(key[i]);
    const bool hump = std::isupper(c) && i > 0 && std::islower(static_cast<unsigned char>(key[i - 1]));
    if (!std::isalnum(c) || hump) words.emplace_back();
    if (std::isalnum(c)) words.back().push_back(static_cast<char>(std::tolower(c)));
  }
  return words;
}

}  // namespace

void interpolate(Node& node, const Environment& environment, ProblemList& problems) {
  if (node.is_scalar() && node.text.find('$') != std::string::npos) interpolate_scalar(node, environment, problems);
  for (Node& item : node.items) interpolate(item, environment, problems);
  for (Entry& entry : node.entries) interpolate(entry.value, environment, problems);
}

bool is_secret(std::string_view key, const Node& value) {
  static constexpr std::string_view secret_words[] = {"password", "secret", "apikey", "authorization", "auth"};
  static constexpr std::string_view before_token[] = {"bos", "eos", "pad", "unk", "sep", "cls", "mask", "turn", "special", "per"};
  const bool is_number = as_double(value).has_value() || as_bool(value).has_value();
  const std::vector<std::string> words = words_of(key);
  const auto follows = [&](std::size_t i, std::string_view word) { return i + 1 < words.size() && words[i + 1] == word; };
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "api" && follows(i, "key")) return true;
    if (std::ranges::find(secret_words, words[i]) != std::end(secret_words)) return true;
    if (words[i] != "token" || is_number || follows(i, "id")) continue;
    const bool of_vocabulary = i > 0 && std::ranges::find(before_token, words[i - 1]) != std::end(before_token);
    if (!of_vocabulary) return true;
  }
  return false;
}

}  // namespace tessera::config
