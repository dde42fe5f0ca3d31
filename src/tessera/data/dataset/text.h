#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/file.h"
#include "tessera/data/dataset/context.h"
#include "tessera/data/dataset/dataset.h"
#include "tessera/data/dataset/files.h"

namespace tessera::data {

struct TextOptions {
  std::int64_t seq_length = 0;             ///< positions of a window, at least 1
  std::string text_column = "text";        ///< of JSONL and JSON records
  bool append_end_of_text = true;          ///< the tokenizer's EOS after each document that does not end with it
  std::string split = {};                  ///< its slice, if any, chooses windows
  std::optional<std::int64_t> limit = {};  ///< at most this many windows
};

/// Documents laid end to end and cut into windows of seq_length positions, each predicting its next token: every token but the very first is a label
/// exactly once (unless the options leave windows out); the last window may be shorter. Documents are encoded with the tokenizer's own special
/// tokens. `.jsonl` and `.json` files hold one document a record, any other file is one document. Documents are not separated in attention. Files are
/// mapped and tokenised once, at construction, by several threads; the tokens go into a nameless temporary file ($TMPDIR or /tmp), which is mapped (4
/// bytes each).
class TextDataset final : public Dataset {
 public:
  /// UserError for no text at all, records without the column, invalid UTF-8 (file:line or file and byte), tokens outside the vocabulary,
  /// seq_length beyond the context, and append_end_of_text without an EOS token.
  TextDataset(const std::vector<std::filesystem::path>& files, TextOptions options, const DatasetContext& context);
  std::int64_t size() const override;
  Sample sample(std::int64_t index) const override;
  std::string description() const override;
  std::int64_t num_tokens() const { return std::ssize(tokens()); }

 private:
  std::span<const TokenId> tokens() const;

  TextOptions options_;
  std::optional<MappedFile> tokens_;
  std::int64_t num_documents_ = 0;
  IndexRange windows_;  ///< those that are samples
};

}  // namespace tessera::data
