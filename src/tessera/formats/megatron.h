#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/file.h"
#include "tessera/core/shortened.h"

namespace tessera::formats {

/// How a Megatron-LM .bin file stores a token.
enum class MegatronType : std::uint8_t { U8 = 1, I8 = 2, I16 = 3, I32 = 4, I64 = 5, F64 = 6, F32 = 7, U16 = 8 };
/// What Megatron-LM's preprocess_data takes: two bytes where the vocabulary has fewer than 65500 tokens, else four.
MegatronType megatron_type_for(std::size_t vocab_size);

/// Sequences of tokens in PREFIX.bin, described by PREFIX.idx (Megatron-LM's IndexedDataset). Both files are mapped. Layout of the index,
/// little-endian: "MMIDIDX\0\0", u64 version 1, u8 type, u64 sequences, u64 document bounds, i32 length of each sequence, i64 byte offset of each,
/// i64 first sequence of each document and the number of sequences.
class MegatronFile {
 public:
  /// `prefix`: the path without ".bin" and ".idx"; either ending may be given too. UserError for a missing or damaged file, and when the index does
  /// not fit the .bin (which then is truncated, or belongs to another index).
  explicit MegatronFile(const std::filesystem::path& prefix);

  std::int64_t num_sequences() const { return num_sequences_; }
  std::int64_t num_documents() const { return num_documents_; }
  std::int32_t length(std::int64_t sequence) const;
  std::int64_t num_tokens() const;
  MegatronType type() const { return type_; }
  /// Appends tokens [begin, end) of a sequence, which has them. Reads mapped memory: ask `refuse_shortened` first.
  void append(std::int64_t sequence, std::int64_t begin, std::int64_t end, std::vector<std::int64_t>& tokens) const;
  /// UserError when the .bin has become shorter since it was opened. A system call: once for each sample, not for each of its sequences.
  void refuse_shortened() const { tessera::refuse_shortened(tokens_); }
  const std::filesystem::path& prefix() const { return prefix_; }

 private:
  std::filesystem::path prefix_;
  MappedFile index_;
  MappedFile tokens_;
  MegatronType type_ = MegatronType::I32;
  std::int64_t num_sequences_ = 0;
  std::int64_t num_documents_ = 0;
  const std::byte* lengths_ = nullptr;  ///< in the file, i32 each, not aligned
  const std::byte* offsets_ = nullptr;  ///< in the file, i64 each, not aligned
};

/// Checks an index without its .bin, as `MegatronFile` does. For fuzzing and inspection.
void check_megatron_index(std::span<const std::byte> index, const std::string& where);

/// Writes PREFIX.bin and PREFIX.idx, byte for byte as Megatron-LM's preprocess_data does: a document is one sequence, an empty one is none.
class MegatronWriter {
 public:
  /// Replaces files that exist; `operations` must outlive the writer.
  MegatronWriter(FileOperations& operations, const std::filesystem::path& prefix, MegatronType type);
  void add_document(std::span<const std::int32_t> tokens);
  /// Writes the index. Without it the files count as incomplete.
  void finish();
  std::int64_t num_documents() const { return static_cast<std::int64_t>(document_bounds_.size()) - 1; }
  std::int64_t num_tokens() const { return num_tokens_; }

 private:
  FileOperations& operations_;
  std::filesystem::path prefix_;
  MegatronType type_;
  FileWriter tokens_;
  std::vector<std::byte> buffer_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> document_bounds_ = {0};  ///< sequences before each document, and all
  std::int64_t num_tokens_ = 0;
};

}  // namespace tessera::formats
