#include "tessera/data/tokenizer/engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/data/tokenizer/byte_level.h"
#include "tessera/data/tokenizer/json_section.h"

namespace tessera::data {
namespace {

/// Far above any vocabulary in use; keeps a broken file from claiming gigabytes.
constexpr std::size_t kMostTokens = std::size_t{1} << 22;

void check_model(const TokenizerDefinition& definition) {
  const ModelDefinition& model = definition.model;
  const auto fail = [&](std::string what) { throw UserError({definition.where, std::move(what), "", kDamagedTokenizer}); };
  const auto in_vocabulary = [&](TokenId id) { return id >= 0 && static_cast<std::size_t>(id) < model.tokens.size(); };
  if (model.tokens.size() > kMostTokens) fail(fmt::format("token ids up to {} are not supported", model.tokens.size() - 1));
  for (std::size_t i = 0; i < model.tokens.size(); ++i)
    if (first_invalid_utf8(model.tokens[i]) != std::string::npos) fail(fmt::format("token {} is not valid UTF-8", i));
  if (model.kind == ModelKind::Unigram && model.scores.size() != model.tokens.size())
    fail(fmt::format("{} scores for {} tokens", model.scores.size(), model.tokens.size()));
  if (model.unk && !in_vocabulary(*model.unk))
    fail(fmt::format("the unknown token's id {} is outside the vocabulary of {}", *model.unk, model.tokens.size()));
  for (std::size_t i = 0; i < model.merges.size(); ++i)
    if (const Merge& merge = model.merges[i]; !in_vocabulary(merge.left) || !in_vocabulary(merge.right) || !in_vocabulary(merge.merged))
      fail(fmt::format("merge {} names a token outside the vocabulary of {}", i, model.tokens.size()));
}

void check_added_tokens(const TokenizerDefinition& definition) {
  for (const AddedToken& token : definition.added_tokens) {
    if (token.id < 0 || static_cast<std::size_t>(token.id) >= kMostTokens)
      throw UserError(
          {definition.where, fmt::format("added token \"{}\" has the id {}, which is not supported", token.content, token.id), "", kOtherTokenizer});
    if (first_invalid_utf8(token.content) != std::string::npos)
      throw UserError({definition.where, fmt::format("added token {} is not valid UTF-8", token.id), "", kDamagedTokenizer});
  }
}

std::vector<std::string> all_spellings(const TokenizerDefinition& definition) {
  std::vector<std::string> spellings = definition.model.tokens;
  for (const AddedToken& token : definition.added_tokens) {
    const auto id = static_cast<std::size_t>(token.id);
    if (id >= spellings.size()) spellings.resize(id + 1);
    spellings[id] = token.content;
  }
  return spellings;
}

std::variant<BpeModel, UnigramModel, WordPieceModel, WordLevelModel> make_model(const ModelDefinition& model, bool reads_bytes) {
  switch (model.kind) {
    case ModelKind::Unigram:
      return UnigramModel(model);
    case ModelKind::WordPiece:
      return WordPieceModel(model);
    case ModelKind::WordLevel:
      return WordLevelModel(model);
    case ModelKind::Bpe:
      break;
  }
  return BpeModel(model, reads_bytes);
}

/// Whether words may stay bytes: everything the model knows must then be spelled in the byte alphabet, with nothing added at a word's ends.
bool can_read_bytes(const std::vector<PreTokenizerStep>& steps, const ModelDefinition& model) {
  return model.kind == ModelKind::Bpe && !steps.empty() && std::holds_alternative<ByteLevelPreTokenizer>(steps.back()) && !model.byte_fallback &&
         model.continuing_subword_prefix.empty() && model.end_of_word_suffix.empty();
}

/// Padding falls back to EOS; EOS always ends a generation.
TokenizerDefinition completed(TokenizerDefinition definition) {
  SpecialTokens& special = definition.special_tokens;
  if (!special.pad) special.pad = special.eos;
  if (!special.unk) special.unk = definition.model.unk;
  std::vector<TokenId>& ends = definition.end_of_generation;
  if (special.eos) ends.push_back(*special.eos);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return definition;
}

/// SentencePiece's BPE takes a whole text for one word; cut at its spaces it is faster, and words repeat.
bool can_cut_at_marks(const ModelDefinition& model) {
  return model.kind == ModelKind::Bpe && model.continuing_subword_prefix.empty() && model.end_of_word_suffix.empty() && !model.ignore_merges &&
         std::find(model.tokens.begin(), model.tokens.end(), "\u2581") != model.tokens.end() &&
         std::none_of(model.merges.begin(), model.merges.end(),
                      [&](const Merge& merge) { return crosses_mark(model.tokens[static_cast<std::size_t>(merge.merged)]); });
}

const TokenizerDefinition& checked(const TokenizerDefinition& definition) {
  check_model(definition);
  check_added_tokens(definition);
  return definition;
}

}  // namespace

std::unique_ptr<EncodeScratch> ScratchPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto scratch = std::move(idle_.back());
      idle_.pop_back();
      return scratch;
    }
  }
  return std::make_unique<EncodeScratch>();
}

void ScratchPool::give_back(std::unique_ptr<EncodeScratch> scratch) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(scratch));
}

TokenizerEngine::TokenizerEngine(TokenizerDefinition source)
    : definition(completed(std::move(source))),
      spellings(all_spellings(checked(definition))),
      special(spellings.size()),
      ids(spellings.size()),
      normalizer(parse_normalizer(definition.normalizer, definition.where)),
      pre_tokenizer(parse_pre_tokenizer(definition.pre_tokenizer, definition.where)),
      reads_bytes(can_read_bytes(pre_tokenizer, definition.model)),
      model(make_model(definition.model, reads_bytes)),
      frame(parse_post_processor(definition.post_processor, definition.where)),
      decoder(parse_decoder(definition.decoder, definition.where)),
      raw_finder(definition.added_tokens, false, normalizer),
      normalized_finder(definition.added_tokens, true, normalizer) {
  if (reads_bytes) {
    std::get<ByteLevelPreTokenizer>(pre_tokenizer.back()).to_alphabet = false;
    sole_pattern = data::sole_pattern(pre_tokenizer);
  } else if (can_cut_at_marks(definition.model)) {
    pre_tokenizer.emplace_back(MarkPreTokenizer{});
  }
  for (const AddedToken& token : definition.added_tokens)
    if (token.special) special[static_cast<std::size_t>(token.id)] = true;
  for (std::size_t id = 0; id < spellings.size(); ++id)
    if (!spellings[id].empty()) ids.insert(spellings[id], static_cast<TokenId>(id));
  decodes_byte_tokens =
      std::any_of(decoder.begin(), decoder.end(), [](const DecoderStep& s) { return std::holds_alternative<ByteFallbackDecoder>(s); });
  if (decoder.size() != 1 || !std::holds_alternative<ByteLevelDecoder>(decoder[0])) return;
  for (const std::string& spelling : spellings) byte_level_bytes.push_back(from_byte_alphabet(spelling).value_or(spelling));
}

void TokenizerEngine::encode_section(std::string_view text, bool starts_input, std::vector<TokenId>& out, EncodeScratch& scratch) const {
  PreTokenized words;
  words.text = apply_normalizer(normalizer, std::string(text));
  const std::string normalized = words.text;
  for (const Section& section : normalized_finder.sections(normalized)) {
    if (section.id >= 0) {
      out.push_back(section.id);
      continue;
    }
    words.text = normalized.substr(section.begin, section.end - section.begin);
    words.pieces = {{0, words.text.size()}};
    words.starts_input = starts_input && section.begin == 0;
    apply_pre_tokenizer(pre_tokenizer, words);
    for (const PreTokenized::Piece& piece : words.pieces)
      if (piece.begin < piece.end) encode_word(std::string_view(words.text).substr(piece.begin, piece.end - piece.begin), out, scratch);
  }
}

void TokenizerEngine::encode_word(std::string_view word, std::vector<TokenId>& out, EncodeScratch& scratch) const {
  const bool cached = word.size() <= WordCache::kLongestWord;
  const std::uint64_t hash = cached ? hash_bytes(word) : 0;
  std::span<const TokenId> known;
  if (cached && scratch.cache.find(word, hash, known)) {
    out.insert(out.end(), known.begin(), known.end());
    return;
  }
  const std::size_t first = out.size();
  if (const auto* bpe = std::get_if<BpeModel>(&model))
    bpe->encode(word, out, scratch.bpe);
  else if (const auto* unigram = std::get_if<UnigramModel>(&model))
    unigram->encode(word, out, scratch.unigram);
  else if (const auto* word_piece = std::get_if<WordPieceModel>(&model))
    word_piece->encode(word, out, scratch.word_piece);
  else
    std::get<WordLevelModel>(model).encode(word, out);
  if (cached) scratch.cache.insert(word, hash, std::span(out).subspan(first));
}

}  // namespace tessera::data
