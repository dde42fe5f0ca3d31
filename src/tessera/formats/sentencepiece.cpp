#include "tessera/formats/sentencepiece.h"

#include <fmt/format.h>

#include <cstring>

#include "tessera/core/error.h"
#include "tessera/core/file.h"

namespace tessera::formats {
namespace {

/// One field of a message as it lies in the file. `integer` holds varints and fixed32 bits; `bytes` holds what is length-delimited.
struct Field {
  std::uint32_t number = 0;
  std::uint64_t integer = 0;
  std::string_view bytes;
};

/// Walks the fields of one message. Every step is checked against the message's end.
class MessageReader {
 public:
  MessageReader(std::string_view bytes, const std::string& where) : rest_(bytes), where_(where) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field = {static_cast<std::uint32_t>(key >> 3), 0, {}};
    if (key >> 3 == 0 || key >> 3 >= 1U << 29) fail("a field number out of range");
    switch (key & 7) {
      case 0:
        field.integer = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5: {
        std::uint32_t bits = 0;
        std::memcpy(&bits, take(4).data(), sizeof bits);
        field.integer = bits;
        break;
      }
      default:
        fail("an unknown wire type");
    }
    return true;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(
        {where_, "not a SentencePiece model: " + what, "", "check that this is a tokenizer.model file; if so, download or copy it again"});
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than ten bytes");
  }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) fail("it ends in the middle of a field");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  const std::string& where_;
};

/// int32 fields are varints of their 64-bit two's complement.
std::int64_t signed_id(const Field& field) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(field.integer)); }

float float_of(std::uint64_t bits) {
  const auto word = static_cast<std::uint32_t>(bits);
  float value = 0;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

SentencePieceModel::Piece parse_piece(std::string_view bytes, const std::string& where) {
  SentencePieceModel::Piece piece;
  MessageReader reader(bytes, where);
  for (Field field; reader.next(field);) {
    if (field.number == 1) piece.text = std::string(field.bytes);
    if (field.number == 2) piece.score = float_of(field.integer);
    if (field.number != 3) continue;
    if (field.integer < 1 || field.integer > 6) reader.fail(fmt::format("piece type {}", field.integer));
    piece.type = static_cast<SentencePieceType>(field.integer);
  }
  return piece;
}

void parse_trainer_spec(std::string_view bytes, const std::string& where, SentencePieceModel& model) {
  MessageReader reader(bytes, where);
  for (Field field; reader.next(field);) switch (field.number) {
      case 3:
        if (field.integer < 1 || field.integer > 4) reader.fail(fmt::format("model type {}", field.integer));
        model.algorithm = static_cast<SentencePieceAlgorithm>(field.integer);
        break;
      case 22:
        model.split_by_whitespace = field.integer != 0;
        break;
      case 24:
        model.treat_whitespace_as_suffix = field.integer != 0;
        break;
      case 35:
        model.byte_fallback = field.integer != 0;
        break;
      case 40:
        model.unk_id = signed_id(field);
        break;
      case 41:
        model.bos_id = signed_id(field);
        break;
      case 42:
        model.eos_id = signed_id(field);
        break;
      case 43:
        model.pad_id = signed_id(field);
        break;
      default:
        break;
    }
}

void parse_normalizer_spec(std::string_view bytes, const std::string& where, SentencePieceModel& model) {
  MessageReader reader(bytes, where);
  for (Field field; reader.next(field);) switch (field.number) {
      case 2:
        model.precompiled_charsmap = std::string(field.bytes);
        break;
      case 3:
        model.add_dummy_prefix = field.integer != 0;
        break;
      case 4:
        model.remove_extra_whitespaces = field.integer != 0;
        break;
      case 5:
        model.escape_whitespaces = field.integer != 0;
        break;
      default:
        break;
    }
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& where) {
  SentencePieceModel model;
  MessageReader reader(bytes, where);
  for (Field field; reader.next(field);) switch (field.number) {
      case 1:
        model.pieces.push_back(parse_piece(field.bytes, where));
        break;
      case 2:
        parse_trainer_spec(field.bytes, where, model);
        break;
      case 3:
        parse_normalizer_spec(field.bytes, where, model);
        break;
      default:
        break;
    }
  if (model.pieces.empty()) reader.fail("it has no pieces");
  return model;
}

SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path) {
  return parse_sentencepiece_model(MappedFile(path).text(), path.string());
}

}  // namespace tessera::formats
