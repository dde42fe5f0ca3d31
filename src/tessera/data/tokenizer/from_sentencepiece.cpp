#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/base64.h"
#include "tessera/core/error.h"
#include "tessera/data/tokenizer/json_section.h"
#include "tessera/data/tokenizer/merge_rules.h"
#include "tessera/data/tokenizer/post_processor.h"
#include "tessera/data/tokenizer/sources.h"

namespace tessera::data {
namespace {

using formats::SentencePieceAlgorithm;
using formats::SentencePieceModel;
using formats::SentencePieceType;

constexpr const char* kSpace = "\u2581";  // what SentencePiece writes for a space

std::optional<TokenId> piece_id(const SentencePieceModel& model, std::int64_t id) {
  return id >= 0 && static_cast<std::size_t>(id) < model.pieces.size() ? std::optional(static_cast<TokenId>(id)) : std::nullopt;
}

/// The higher a piece's score the earlier it is merged; equal scores share a rank.
std::vector<Merge> merges_of(const SentencePieceModel& model) {
  std::vector<float> scores;
  const auto takes_part = [](SentencePieceType type) {
    return type == SentencePieceType::Normal || type == SentencePieceType::UserDefined || type == SentencePieceType::Unused;
  };
  for (const auto& piece : model.pieces)
    if (takes_part(piece.type)) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<RankedToken> tokens;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& piece = model.pieces[i];
    if (!takes_part(piece.type)) continue;
    const auto rank = std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) - scores.begin();
    tokens.push_back({piece.text, static_cast<TokenId>(i), static_cast<std::uint32_t>(rank)});
  }
  return merges_of_concatenations(tokens);
}

ModelDefinition model_of(const SentencePieceModel& source) {
  ModelDefinition model;
  model.kind = source.algorithm == SentencePieceAlgorithm::Bpe ? ModelKind::Bpe : ModelKind::Unigram;
  for (const auto& piece : source.pieces) {
    model.tokens.push_back(piece.text);
    if (model.kind == ModelKind::Unigram) model.scores.push_back(static_cast<double>(piece.score));
    model.byte_fallback |= piece.type == SentencePieceType::Byte;
  }
  model.unk = piece_id(source, source.unk_id);
  model.fuse_unk = true;
  if (model.kind == ModelKind::Bpe) model.merges = merges_of(source);
  return model;
}

std::vector<AddedToken> added_tokens_of(const SentencePieceModel& model) {
  std::vector<AddedToken> tokens;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& piece = model.pieces[i];
    const bool special = piece.type == SentencePieceType::Control || piece.type == SentencePieceType::Unknown;
    if (!special && piece.type != SentencePieceType::UserDefined) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(i);
    token.content = piece.text;
    token.special = special;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Json replace(Json pattern, const char* content) { return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}}; }

Json sequence(const char* member, Json steps) {
  if (steps.empty()) return nullptr;
  return {{"type", "Sequence"}, {member, std::move(steps)}};
}

/// Metaspace steps know the beginning of the text; a Prepend normalizer begins anew after every special token.
bool uses_metaspace(const SentencePieceModel& model, const SentencePieceOptions& options) {
  return model.algorithm == SentencePieceAlgorithm::Unigram || !options.prefix_after_special;
}

Json normalizer_of(const SentencePieceModel& model, const SentencePieceOptions& options) {
  Json steps = Json::array();
  if (!model.precompiled_charsmap.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64_encode(model.precompiled_charsmap)}});
  if (model.remove_extra_whitespaces) {
    // Spaces only: a line break at the text's end stays.
    steps.push_back(replace({{"Regex", R"(\A +| +\z)"}}, ""));
    steps.push_back(replace({{"Regex", " {2,}"}}, " "));
  }
  if (!uses_metaspace(model, options)) {
    if (model.add_dummy_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
    steps.push_back(replace({{"String", " "}}, kSpace));
  }
  return sequence("normalizers", std::move(steps));
}

Json metaspace(const SentencePieceModel& model, const SentencePieceOptions& options) {
  const char* scheme = !model.add_dummy_prefix ? "never" : options.prefix_after_special ? "always" : "first";
  const bool split = model.algorithm == SentencePieceAlgorithm::Unigram && model.split_by_whitespace;
  return {{"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", scheme}, {"split", split}};
}

Json decoder_of(const SentencePieceModel& model) {
  Json steps = {replace({{"String", kSpace}}, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (model.add_dummy_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence("decoders", std::move(steps));
}

void refuse_what_is_not_supported(const SentencePieceModel& model, const std::string& where) {
  const auto refuse = [&](const char* what) { throw UserError({where, fmt::format("SentencePiece {} not supported", what), "", kOtherTokenizer}); };
  if (model.algorithm == SentencePieceAlgorithm::Word) refuse("word models are");
  if (model.algorithm == SentencePieceAlgorithm::Character) refuse("character models are");
  if (model.treat_whitespace_as_suffix) refuse("models with treat_whitespace_as_suffix are");
  if (!model.escape_whitespaces) refuse("models without escape_whitespaces are");
}

}  // namespace

TokenizerDefinition from_sentencepiece(const SentencePieceModel& model, const SentencePieceOptions& options, const std::string& where) {
  refuse_what_is_not_supported(model, where);
  TokenizerDefinition definition;
  definition.where = where;
  definition.model = model_of(model);
  definition.normalizer = normalizer_of(model, options);
  if (uses_metaspace(model, options)) definition.pre_tokenizer = metaspace(model, options);
  definition.decoder = decoder_of(model);
  definition.added_tokens = added_tokens_of(model);
  definition.special_tokens = {piece_id(model, model.bos_id), piece_id(model, model.eos_id), piece_id(model, model.pad_id),
                               piece_id(model, model.unk_id)};
  std::vector<std::pair<std::string, TokenId>> before;
  std::vector<std::pair<std::string, TokenId>> after;
  const auto token = [&](TokenId id) { return std::pair(model.pieces[static_cast<std::size_t>(id)].text, id); };
  if (options.add_bos && definition.special_tokens.bos) before.push_back(token(*definition.special_tokens.bos));
  if (options.add_eos && definition.special_tokens.eos) after.push_back(token(*definition.special_tokens.eos));
  definition.post_processor = template_processing(before, after);
  return definition;
}

TokenizerDefinition from_llama2c(const formats::Llama2cTokenizer& tokenizer, const std::string& where) {
  constexpr std::size_t kNumSpecial = 3;
  constexpr std::size_t kNumBytes = 256;
  if (tokenizer.tokens.size() < kNumSpecial + kNumBytes)
    throw UserError({where, fmt::format("a llama2.c tokenizer of {} tokens is not supported", tokenizer.tokens.size()),
                     "it begins with <unk>, <s>, </s> and the 256 bytes", "check that this is llama2.c's tokenizer.bin"});
  SentencePieceModel model;
  model.algorithm = SentencePieceAlgorithm::Bpe;
  model.remove_extra_whitespaces = false;
  const char* names[kNumSpecial] = {"<unk>", "<s>", "</s>"};
  for (std::size_t i = 0; i < tokenizer.tokens.size(); ++i) {
    const auto& source = tokenizer.tokens[i];
    SentencePieceModel::Piece piece{source.bytes, source.score, SentencePieceType::Normal};
    if (i < kNumSpecial) {
      piece = {names[i], 0, i == 0 ? SentencePieceType::Unknown : SentencePieceType::Control};
    } else if (i < kNumSpecial + kNumBytes) {
      piece.type = SentencePieceType::Byte;
    } else {
      // llama2.c has turned SentencePiece's mark for a space into the space itself.
      std::string marked;
      for (const char c : source.bytes) marked.append(c == ' ' ? std::string_view(kSpace) : std::string_view(&c, 1));
      piece.text = std::move(marked);
    }
    model.pieces.push_back(std::move(piece));
  }
  return from_sentencepiece(model, {}, where);
}

}  // namespace tessera::data
