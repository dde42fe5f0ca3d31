#include "tessera/formats/megatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "tessera/core/error.h"
#include "tessera/formats/byte_reader.h"

namespace tessera::formats {
namespace {

constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);

std::size_t bytes_of(MegatronType type) {
  switch (type) {
    case MegatronType::U8:
    case MegatronType::I8:
      return 1;
    case MegatronType::I16:
    case MegatronType::U16:
      return 2;
    case MegatronType::I32:
    case MegatronType::F32:
      return 4;
    case MegatronType::I64:
    case MegatronType::F64:
      return 8;
  }
  TESSERA_ASSERT(false, "no such type");
}

struct Header {
  MegatronType type = MegatronType::I32;
  std::int64_t num_sequences = 0;
  std::int64_t num_bounds = 0;  ///< of documents
};

Header read_header(ByteReader& reader) {
  if (reader.remaining() < kMegatronMagic.size() || reader.read_text(kMegatronMagic.size()) != kMegatronMagic)
    reader.refuse("not a Megatron index: it does not begin with MMIDIDX", "give the prefix of a .bin and .idx pair");
  if (const auto version = reader.read<std::uint64_t>(); version != 1) reader.refuse(fmt::format("version {} of the index, not 1", version));
  const auto code = reader.read<std::uint8_t>();
  Header header{.type = static_cast<MegatronType>(code), .num_sequences = 0, .num_bounds = 0};
  if (code < 1 || code > 8 || header.type == MegatronType::F32 || header.type == MegatronType::F64)
    reader.refuse(fmt::format("tokens of type {}", code), "make the files again with tokens as whole numbers (types 1 to 5 and 8)");
  const auto sequences = reader.read<std::uint64_t>();
  const auto bounds = reader.read<std::uint64_t>();
  if (sequences > reader.remaining() / 12 || bounds > reader.remaining() / 8 || sequences * 12 + bounds * 8 > reader.remaining()) {
    reader.refuse(fmt::format("the index ends before its {} sequences and {} bounds of documents", sequences, bounds),
                  "the file is truncated: download or copy it again");
  }
  header.num_sequences = static_cast<std::int64_t>(sequences);
  header.num_bounds = static_cast<std::int64_t>(bounds);
  return header;
}

template <class Value>
Value at(const std::byte* values, std::int64_t index) {
  Value value;
  std::memcpy(&value, values + index * static_cast<std::int64_t>(sizeof(Value)), sizeof(Value));
  return value;
}

/// Bytes of the .bin that the sequences reach to. Refuses lengths and offsets that are negative or overflow.
std::uint64_t needed_bytes(const Header& header, const std::byte* lengths, const std::byte* offsets, const ByteReader& reader) {
  const std::uint64_t token_bytes = bytes_of(header.type);
  std::uint64_t needed = 0;
  for (std::int64_t sequence = 0; sequence < header.num_sequences; ++sequence) {
    const auto length = at<std::int32_t>(lengths, sequence);
    const auto offset = at<std::int64_t>(offsets, sequence);
    if (length < 0 || offset < 0 || offset % static_cast<std::int64_t>(token_bytes) != 0 || offset > std::numeric_limits<std::int64_t>::max() / 2)
      reader.refuse(fmt::format("sequence {} has length {} at byte {}", sequence, length, offset), "the index is damaged: make it again");
    needed = std::max(needed, static_cast<std::uint64_t>(offset) + static_cast<std::uint64_t>(length) * token_bytes);
  }
  return needed;
}

void check_bounds(const Header& header, const std::byte* bounds, const ByteReader& reader) {
  std::int64_t previous = 0;
  for (std::int64_t index = 0; index < header.num_bounds; ++index) {
    const auto bound = at<std::int64_t>(bounds, index);
    if (bound < previous || bound > header.num_sequences || (index == 0 && bound != 0))
      reader.refuse(fmt::format("bound {} of the documents is {} after {}, of {} sequences", index, bound, previous, header.num_sequences),
                    "the index is damaged: make it again");
    previous = bound;
  }
}

struct Index {
  Header header;
  const std::byte* lengths = nullptr;
  const std::byte* offsets = nullptr;
  std::uint64_t needed_bytes = 0;
};

Index parse_index(std::span<const std::byte> bytes, const std::string& where) {
  ByteReader reader(bytes, where);
  Index index{.header = read_header(reader)};
  const auto sequences = static_cast<std::uint64_t>(index.header.num_sequences);
  index.lengths = reader.take(sequences * 4).data();
  index.offsets = reader.take(sequences * 8).data();
  const std::byte* const bounds = reader.take(static_cast<std::uint64_t>(index.header.num_bounds) * 8).data();
  check_bounds(index.header, bounds, reader);
  index.needed_bytes = needed_bytes(index.header, index.lengths, index.offsets, reader);
  return index;
}

std::filesystem::path without_ending(std::filesystem::path path) {
  if (path.extension() == ".bin" || path.extension() == ".idx") path.replace_extension();
  return path;
}

std::filesystem::path with_ending(std::filesystem::path prefix, const char* ending) { return prefix += ending; }

template <class Stored>
void append_widened(const std::byte* from, std::int64_t count, std::vector<std::int64_t>& tokens) {
  const auto* const stored = reinterpret_cast<const Stored*>(from);  // aligned: offsets in the file are checked to be
  tokens.insert(tokens.end(), stored, stored + count);
}

void append_token(std::vector<std::byte>& buffer, std::int32_t token, MegatronType type) {
  const auto narrow = static_cast<std::uint16_t>(token);
  const auto bytes = type == MegatronType::U16 ? std::as_bytes(std::span(&narrow, 1)) : std::as_bytes(std::span(&token, 1));
  buffer.insert(buffer.end(), bytes.begin(), bytes.end());
}

}  // namespace

MegatronType megatron_type_for(std::size_t vocab_size) { return vocab_size < 65500 ? MegatronType::U16 : MegatronType::I32; }

void check_megatron_index(std::span<const std::byte> index, const std::string& where) { parse_index(index, where); }

MegatronFile::MegatronFile(const std::filesystem::path& prefix)
    : prefix_(without_ending(prefix)), index_(with_ending(prefix_, ".idx")), tokens_(with_ending(prefix_, ".bin")) {
  const Index index = parse_index(index_.bytes(), index_.path().string());
  type_ = index.header.type;
  num_sequences_ = index.header.num_sequences;
  num_documents_ = std::max<std::int64_t>(0, index.header.num_bounds - 1);
  offsets_ = index.offsets;
  lengths_ = index.lengths;
  if (index.needed_bytes != tokens_.bytes().size()) {
    throw UserError({tokens_.path().string(),
                     fmt::format("the file has {} bytes, its index describes {}", tokens_.bytes().size(), index.needed_bytes),
                     "a .bin and its .idx are made together", "the .bin is truncated, or belongs to another .idx: copy both again"});
  }
}

std::int32_t MegatronFile::length(std::int64_t sequence) const { return at<std::int32_t>(lengths_, sequence); }

std::int64_t MegatronFile::num_tokens() const {
  std::int64_t tokens = 0;
  for (std::int64_t sequence = 0; sequence < num_sequences_; ++sequence) tokens += length(sequence);
  return tokens;
}

void MegatronFile::append(std::int64_t sequence, std::int64_t begin, std::int64_t end, std::vector<std::int64_t>& tokens) const {
  TESSERA_ASSERT(begin >= 0 && begin <= end && end <= length(sequence), "the sequence has these tokens");
  const std::byte* const from = tokens_.bytes().data() + at<std::int64_t>(offsets_, sequence) + begin * static_cast<std::int64_t>(bytes_of(type_));
  switch (type_) {
    case MegatronType::U8:
      return append_widened<std::uint8_t>(from, end - begin, tokens);
    case MegatronType::I8:
      return append_widened<std::int8_t>(from, end - begin, tokens);
    case MegatronType::I16:
      return append_widened<std::int16_t>(from, end - begin, tokens);
    case MegatronType::U16:
      return append_widened<std::uint16_t>(from, end - begin, tokens);
    case MegatronType::I32:
      return append_widened<std::int32_t>(from, end - begin, tokens);
    case MegatronType::I64:
      return append_widened<std::int64_t>(from, end - begin, tokens);
    case MegatronType::F32:
    case MegatronType::F64:
      break;
  }
  TESSERA_ASSERT(false, "tokens are whole numbers");
}

MegatronWriter::MegatronWriter(FileOperations& operations, const std::filesystem::path& prefix, MegatronType type)
    : operations_(operations), prefix_(without_ending(prefix)), type_(type), tokens_(operations, with_ending(prefix_, ".bin")) {
  TESSERA_ASSERT(type == MegatronType::U16 || type == MegatronType::I32, "tokens are written in two or four bytes");
}

void MegatronWriter::add_document(std::span<const std::int32_t> tokens) {
  buffer_.clear();
  for (const std::int32_t token : tokens) append_token(buffer_, token, type_);
  tokens_.write(buffer_);
  if (!tokens.empty()) lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
  document_bounds_.push_back(std::ssize(lengths_));
  num_tokens_ += std::ssize(tokens);
}

void MegatronWriter::finish() {
  tokens_.finish();
  FileWriter index(operations_, with_ending(prefix_, ".idx"));
  const auto write = [&](const auto& value) { index.write(std::as_bytes(std::span(&value, 1))); };
  index.write(kMegatronMagic);
  write(std::uint64_t{1});
  write(static_cast<std::uint8_t>(type_));
  write(static_cast<std::uint64_t>(lengths_.size()));
  write(static_cast<std::uint64_t>(document_bounds_.size()));
  index.write(std::as_bytes(std::span(lengths_)));
  std::vector<std::int64_t> offsets;
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths_) {
    offsets.push_back(offset);
    offset += length * static_cast<std::int64_t>(bytes_of(type_));
  }
  index.write(std::as_bytes(std::span(offsets)));
  index.write(std::as_bytes(std::span(document_bounds_)));
  index.finish();
}

}  // namespace tessera::formats
