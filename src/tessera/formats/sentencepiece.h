#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// A SentencePiece model file: a protocol-buffer ModelProto
/// (https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto).
namespace tessera::formats {

enum class SentencePieceType { Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };
enum class SentencePieceAlgorithm { Unigram = 1, Bpe = 2, Word = 3, Character = 4 };

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    SentencePieceType type = SentencePieceType::Normal;
  };
  std::vector<Piece> pieces;  ///< by id
  SentencePieceAlgorithm algorithm = SentencePieceAlgorithm::Unigram;
  std::int64_t unk_id = 0;  ///< these four are −1 when there is none
  std::int64_t bos_id = 1;
  std::int64_t eos_id = 2;
  std::int64_t pad_id = -1;
  bool byte_fallback = false;
  bool split_by_whitespace = true;
  bool treat_whitespace_as_suffix = false;
  // How the text is prepared.
  std::string precompiled_charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

/// Reads the fields above and passes over all others. Throws UserError that starts with `where` for bytes that are not such a message, for a model
/// without pieces, and for types and algorithms the format does not define.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& where);
SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path);

}  // namespace tessera::formats
