#include "tessera/config/interpolate.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "tessera/core/text.h"

namespace tessera::config {

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
  std::string_view flaw;  ///< why it is none that can be filled; then it names no variable
};

/// The brace that closes the one at `open`, or npos.
std::size_t closing_brace(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at;
  }
  return std::string_view::npos;
}

/// Names may have dotted parts, as AutoModel allows.
bool is_name(std::string_view text) {
  return !text.empty() && starts_name(text[0]) && std::ranges::all_of(text, [](char c) { return continues_name(c) || c == '.'; });
}

Placeholder read_braced(std::string_view text, std::size_t dollar) {
  const std::size_t close = closing_brace(text, dollar + 1);
  if (close == std::string_view::npos) return {.begin = dollar, .end = text.size(), .variable = {}, .fallback = {}, .flaw = "has no closing brace"};
  std::string_view inside = trim(text.substr(dollar + 2, close - dollar - 2));
  Placeholder result{.begin = dollar, .end = close + 1, .variable = {}, .fallback = {}, .flaw = {}};
  if (inside.find('{') != std::string_view::npos) {
    result.flaw = "has braces within its own";
    return result;
  }
  if (inside.starts_with("oc.env:")) inside = trim(inside.substr(7));
  const std::size_t comma = inside.find(',');
  result.variable = trim(inside.substr(0, comma));
  if (comma != std::string_view::npos) result.fallback = trim(inside.substr(comma + 1));
  if (!is_name(result.variable)) {
    result.variable = {};
    result.flaw = "names no environment variable";
  }
  return result;
}

/// A final dot is punctuation.
std::optional<Placeholder> read_bare(std::string_view text, std::size_t dollar) {
  std::size_t end = dollar + 1;
  if (end >= text.size() || !starts_name(text[end])) return std::nullopt;
  while (end < text.size() && (continues_name(text[end]) || (text[end] == '.' && end + 1 < text.size() && continues_name(text[end + 1])))) ++end;
  return Placeholder{.begin = dollar, .end = end, .variable = text.substr(dollar + 1, end - dollar - 1), .fallback = {}, .flaw = {}};
}

std::optional<Placeholder> next_placeholder(std::string_view text, std::size_t from) {
  for (std::size_t dollar = text.find('$', from); dollar != std::string_view::npos; dollar = text.find('$', dollar + 1)) {
    const bool braced = dollar + 1 < text.size() && text[dollar + 1] == '{';
    if (auto found = braced ? std::optional(read_braced(text, dollar)) : read_bare(text, dollar)) return found;
  }
  return std::nullopt;
}

std::optional<std::string> given_value(const Placeholder& placeholder, const Environment& environment) {
  return placeholder.flaw.empty() ? environment(placeholder.variable) : std::nullopt;
}

std::optional<std::string> value_of(const Placeholder& placeholder, const Environment& environment) {
  if (auto value = given_value(placeholder, environment)) return value;
  if (placeholder.flaw.empty() && placeholder.fallback) return std::string(*placeholder.fallback);
  return std::nullopt;
}

/// Why the placeholder, `written` so, has no value.
Problem unfilled(const Placeholder& placeholder, const std::string& written, const Position& position) {
  const std::string name(placeholder.variable);
  const std::string rule = "placeholders are filled from the environment before the recipe is read";
  const std::string what = placeholder.flaw.empty() ? "the environment variable " + name + " is not set" : std::string(placeholder.flaw);
  // Few set a variable whose name has a dot: another key was meant.
  if (placeholder.flaw.empty() && name.find('.') == std::string::npos)
    return {to_string(position), written + ": " + what, rule, "set " + name + ", or write ${" + name + ",default}"};
  return {to_string(position), written + ": " + what,
          rule + "; nested placeholders, references to other keys and resolvers other than oc.env are not supported",
          "write the value itself, or one variable, as ${NAME} or ${NAME,default}"};
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
    problems.add(unfilled(*placeholder, written.substr(placeholder->begin, placeholder->end - placeholder->begin), node.position));
  }
  if (done == 0) return;
  result.append(written, done);
  node.text = std::move(result);
  node.placeholder = written;
}

/// A value that a message may hold, and the text that stands for it in the recipe.
struct Replacement {
  std::string value;
  std::string written;
  bool whole_words = false;
};

bool is_worth_hiding(const std::string& value) {
  const Node scalar = Node::scalar(value, {});
  return value.size() >= 4 && !is_null(scalar) && !as_bool(scalar) && !as_double(scalar);
}

/// What reveals nothing is put back only where it stands in quotes, alone: messages are full of numbers and short words.
Replacement replacement(const std::string& value, const std::string& written, bool whole_words) {
  if (is_worth_hiding(value)) return {value, written, whole_words};
  return {'"' + value + '"', '"' + written + '"', false};
}

/// Only what the environment gave: a default stands in the recipe for all to see.
void collect_replacements(const Node& node, const Environment& environment, std::vector<Replacement>& all) {
  const std::string written = node.placeholder.value_or("");
  bool is_given = false;
  for (auto placeholder = next_placeholder(written, 0); placeholder; placeholder = next_placeholder(written, placeholder->end)) {
    const auto value = given_value(*placeholder, environment).value_or("");
    is_given |= !value.empty();
    if (!value.empty()) all.push_back(replacement(value, written.substr(placeholder->begin, placeholder->end - placeholder->begin), true));
  }
  if (is_given) all.push_back(replacement(node.text, written, false));
  for (const Node& item : node.items) collect_replacements(item, environment, all);
  for (const Entry& entry : node.entries) collect_replacements(entry.value, environment, all);
}

/// In the order in which they are made: a value may be part of a longer one.
std::vector<Replacement> replacements(const Node& tree, const Environment& environment) {
  std::vector<Replacement> all;
  collect_replacements(tree, environment, all);
  std::ranges::stable_sort(all, std::ranges::greater(), [](const Replacement& change) { return change.value.size(); });
  return all;
}

void replace_all(std::string& text, const Replacement& change) {
  const auto in_word = [&](std::size_t i) { return i < text.size() && continues_name(text[i]); };
  for (std::size_t at = text.find(change.value); at != std::string::npos; at = text.find(change.value, at)) {
    const std::size_t end = at + change.value.size();
    const bool part_of_word = (continues_name(text[at]) && at > 0 && in_word(at - 1)) || (continues_name(text[end - 1]) && in_word(end));
    if (change.whole_words && part_of_word) {
      ++at;
      continue;
    }
    text.replace(at, change.value.size(), change.written);
    at += change.written.size();
  }
}

bool is_part_of_word(std::string_view key, std::size_t begin) { return begin > 0 && std::isalnum(static_cast<unsigned char>(key[begin - 1])) != 0; }

/// The lower-case key without the words that recipes use for what is no secret.
std::string without_harmless_words(std::string key) {
  // Anywhere in a key: tokenizer_name, pretokenize, dispatcher_share_token_dispatcher.
  for (const std::string_view word : {"tokeniz", "token_dispatcher", "secretary"})
    for (std::size_t at = key.find(word); at != std::string::npos; at = key.find(word)) key.erase(at, word.size());
  // At the beginning of a word only: pad_token is one, ipad_token is not.
  for (const std::string_view word :
       {"bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token", "start_of_turn_token", "num_tokens", "per_token"})
    for (std::size_t at = key.find(word); at != std::string::npos; at = key.find(word, at)) {
      if (is_part_of_word(key, at))
        ++at;
      else
        key.erase(at, word.size());
    }
  for (const std::string_view ending : {"_token_id", "_token_ids"})
    if (key.ends_with(ending)) key.resize(key.size() - ending.size());
  return key;
}

}  // namespace

void interpolate(Node& node, const Environment& environment, ProblemList& problems) {
  if (node.is_scalar() && node.text.find('$') != std::string::npos) interpolate_scalar(node, environment, problems);
  for (Node& item : node.items) interpolate(item, environment, problems);
  for (Entry& entry : node.entries) interpolate(entry.value, environment, problems);
}

bool is_secret(std::string_view key) {
  const std::string lower = to_lower(key);
  if (lower == "author") return false;
  const std::string rest = without_harmless_words(lower);
  static constexpr std::string_view secret_words[] = {"password", "secret", "token", "apikey", "api_key", "authorization", "auth"};
  return std::ranges::any_of(secret_words, [&](std::string_view word) { return rest.find(word) != std::string::npos; });
}

std::vector<Problem> with_placeholders(std::vector<Problem> problems, const Node& tree, const Environment& environment) {
  const std::vector<Replacement> all = replacements(tree, environment);
  // The recipe's own place is the user's, and stays what an editor can open.
  const std::string recipe = tree.position.source ? *tree.position.source : "";
  for (Problem& problem : problems)
    for (std::string* text : {&problem.where, &problem.what, &problem.rule, &problem.fix})
      for (const Replacement& change : all)
        if (text != &problem.where || recipe.empty() || !text->starts_with(recipe)) replace_all(*text, change);
  return problems;
}

std::string with_placeholders(std::string text, const Node& tree, const Environment& environment) {
  for (const Replacement& change : replacements(tree, environment)) replace_all(text, change);
  return text;
}

}  // namespace tessera::config
