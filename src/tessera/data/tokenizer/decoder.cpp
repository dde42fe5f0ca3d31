#include "tessera/data/tokenizer/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "tessera/core/text.h"
#include "tessera/data/tokenizer/byte_level.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data {
namespace {

using TokenTexts = std::vector<std::string>;

std::string joined(const TokenTexts& tokens) { return std::accumulate(tokens.begin(), tokens.end(), std::string()); }

std::string replaced(std::string_view text, const std::string& literal, std::string_view content) {
  return TextPattern(literal).replace_all(text, content);
}

/// A token outside the alphabet (an added token with a space, say) stands for its own bytes.
void run_step(const ByteLevelDecoder&, TokenTexts& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += from_byte_alphabet(token).value_or(token);
  tokens = {replace_invalid_utf8(bytes)};
}

void run_step(const ByteFallbackDecoder&, TokenTexts& tokens) {
  TokenTexts result;
  std::string run;
  const auto flush = [&] {
    if (first_invalid_utf8(run) == std::string::npos) {
      if (!run.empty()) result.push_back(run);
    } else {
      result.insert(result.end(), run.size(), "\xEF\xBF\xBD");
    }
    run.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of_token(token)) {
      run.push_back(static_cast<char>(*byte));
      continue;
    }
    flush();
    result.push_back(std::move(token));
  }
  flush();
  tokens = std::move(result);
}

void run_step(const FuseDecoder&, TokenTexts& tokens) { tokens = {joined(tokens)}; }

void run_step(const ReplaceDecoder& step, TokenTexts& tokens) {
  for (std::string& token : tokens) token = step.pattern->replace_all(token, step.content);
}

void run_step(const StripDecoder& step, TokenTexts& tokens) {
  for (std::string& token : tokens) {
    std::string_view rest = token;
    for (std::size_t i = 0; i < step.start && rest.starts_with(step.content); ++i) rest.remove_prefix(step.content.size());
    for (std::size_t i = 0; i < step.stop && rest.ends_with(step.content); ++i) rest.remove_suffix(step.content.size());
    token = std::string(rest);
  }
}

void run_step(const MetaspaceDecoder& step, TokenTexts& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = replaced(tokens[i], step.replacement, i == 0 && step.drop_in_first ? "" : " ");
}

std::string clean_up(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {{{" .", "."},
                                                                                            {" ?", "?"},
                                                                                            {" !", "!"},
                                                                                            {" ,", ","},
                                                                                            {" ' ", "'"},
                                                                                            {" n't", "n't"},
                                                                                            {" 'm", "'m"},
                                                                                            {" do not", " don't"},
                                                                                            {" 's", "'s"},
                                                                                            {" 've", "'ve"},
                                                                                            {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) text = replaced(text, std::string(from), to);
  return text;
}

void run_step(const WordPieceDecoder& step, TokenTexts& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    if (i > 0) token = token.starts_with(step.prefix) ? token.substr(step.prefix.size()) : " " + token;
    if (step.cleanup) token = clean_up(std::move(token));
  }
}

void run_step(const BpeDecoder& step, TokenTexts& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = replaced(tokens[i], step.suffix, i + 1 == tokens.size() ? "" : " ");
}

/// Of connectionist temporal classification: equal tokens in a row are one.
void run_step(const CtcDecoder& step, TokenTexts& tokens) {
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (std::string& token : tokens) {
    token = replaced(token, step.pad_token, "");
    if (step.cleanup) token = replaced(clean_up(std::move(token)), step.word_delimiter, " ");
  }
  std::erase(tokens, "");
}

DecoderStep strip(const JsonSection& section) {
  const std::string content = section.string_or("content", " ");
  if (content.empty() || code_point_at(content, 0).num_bytes != content.size()) section.fail("\"content\" must be one character");
  return StripDecoder{content, section.integer("start").value_or(0), section.integer("stop").value_or(0)};
}

DecoderStep parse_step(const JsonSection& section) {
  const std::string type = section.string("type");
  if (type == "ByteLevel") return ByteLevelDecoder{};
  if (type == "ByteFallback") return ByteFallbackDecoder{};
  if (type == "Fuse") return FuseDecoder{};
  if (type == "Replace") return ReplaceDecoder{std::make_shared<const TextPattern>(parse_pattern(section)), section.string("content")};
  if (type == "Strip") return strip(section);
  if (type == "Metaspace") return MetaspaceDecoder{section.string_or("replacement", "\u2581"), parse_prepend_scheme(section) != PrependScheme::Never};
  if (type == "WordPiece") return WordPieceDecoder{section.string_or("prefix", "##"), section.boolean_or("cleanup", true)};
  if (type == "BPEDecoder") return BpeDecoder{section.string_or("suffix", "</w>")};
  if (type == "CTC")
    return CtcDecoder{section.string_or("pad_token", "<pad>"), section.string_or("word_delimiter_token", "|"), section.boolean_or("cleanup", true)};
  section.not_supported(fmt::format("the decoder \"{}\"", type));
}

}  // namespace

std::vector<DecoderStep> parse_decoder(const Json& json, const std::string& where) {
  std::vector<DecoderStep> steps;
  for (const JsonSection& section : flatten_sequence(json, where, "decoder", "decoders")) steps.push_back(parse_step(section));
  return steps;
}

std::string apply_decoder(const std::vector<DecoderStep>& steps, std::vector<std::string> tokens) {
  if (steps.empty()) {
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) text.append(i == 0 ? "" : " ").append(tokens[i]);
    return text;
  }
  for (const DecoderStep& step : steps) std::visit([&](const auto& kind) { run_step(kind, tokens); }, step);
  return joined(tokens);
}

}  // namespace tessera::data
