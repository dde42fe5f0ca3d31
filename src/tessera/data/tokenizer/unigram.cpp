#include "tessera/data/tokenizer/unigram.h"

#include <algorithm>

#include "tessera/data/tokenizer/byte_level.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data {
namespace {

constexpr double kUnkPenalty = 10;

std::vector<std::pair<std::string, TokenId>> keys_of(const ModelDefinition& model) {
  std::vector<std::pair<std::string, TokenId>> keys;
  for (std::size_t i = 0; i < model.tokens.size(); ++i) keys.emplace_back(model.tokens[i], static_cast<TokenId>(i));
  return keys;
}

}  // namespace

UnigramModel::UnigramModel(const ModelDefinition& model)
    : trie_(keys_of(model)),
      tokens_(model.tokens.size()),
      scores_(model.scores),
      unk_score_((scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end())) - kUnkPenalty),
      unk_(model.unk.value_or(-1)),
      byte_fallback_(model.byte_fallback) {
  for (const auto& [token, id] : keys_of(model))
    if (!token.empty()) tokens_.insert(token, id);
  for (int byte = 0; byte < 256; ++byte) byte_ids_[static_cast<std::size_t>(byte)] = tokens_.find(byte_token(static_cast<unsigned char>(byte)));
}

void UnigramModel::best_paths(std::string_view word, std::vector<Node>& nodes) const {
  nodes.assign(word.size() + 1, {0, -1, -1});
  const auto offer = [&](std::size_t begin, std::size_t end, double score, TokenId id) {
    const double candidate = nodes[begin].score + score;
    if (nodes[end].begin < 0 || candidate > nodes[end].score) nodes[end] = {candidate, static_cast<std::int64_t>(begin), id};
  };
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t num_bytes = code_point_at(word, begin).num_bytes;
    bool character_is_token = false;
    trie_.for_each_prefix(word.substr(begin), [&](std::size_t length, TokenId id) {
      offer(begin, begin + length, scores_[static_cast<std::size_t>(id)], id);
      character_is_token |= length == num_bytes;
    });
    if (!character_is_token) offer(begin, begin + num_bytes, unk_score_, unk_);
    begin += num_bytes;
  }
}

void UnigramModel::append(std::string_view token, std::vector<TokenId>& ids) const {
  if (const TokenId id = tokens_.find(token); id >= 0) return ids.push_back(id);
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (byte_fallback_ && std::all_of(token.begin(), token.end(), [&](char byte) { return id_of(byte) >= 0; })) {
    for (const char byte : token) ids.push_back(id_of(byte));
  } else if (unk_ >= 0) {
    ids.push_back(unk_);
  }
}

void UnigramModel::encode(std::string_view word, std::vector<TokenId>& ids, Scratch& scratch) const {
  std::vector<Node>& nodes = scratch.nodes;
  best_paths(word, nodes);
  std::vector<std::size_t>& ends = scratch.ends;  // of the tokens, from the last to the first, runs of unk as one
  ends.clear();
  bool in_unk = false;
  for (std::size_t end = word.size(); end > 0; end = static_cast<std::size_t>(nodes[end].begin)) {
    const bool unk = nodes[end].id == unk_;
    if (!unk || !in_unk) ends.push_back(end);
    in_unk = unk;
  }
  std::size_t begin = 0;
  for (std::size_t i = ends.size(); i-- > 0; begin = ends[i]) append(word.substr(begin, ends[i] - begin), ids);
}

}  // namespace tessera::data
