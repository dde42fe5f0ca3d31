#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/core/file.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

struct PreprocessOptions {
  std::string text_column = "text";  ///< of records
  bool append_eod = false;           ///< the tokenizer's EOS after each document that has tokens
  int num_threads = 1;
};

struct PreprocessResult {
  std::filesystem::path prefix;  ///< of the .bin and .idx that were written
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;
  std::int64_t text_bytes = 0;
};

/// Tokenises texts into PREFIX_COLUMN_document.bin and .idx, byte for byte as Megatron-LM's tools/preprocess_data.py names and writes them: a
/// document is a record of a file of records, or a whole file of plain text, encoded with the tokenizer's own special tokens. Documents keep their
/// order, whatever the number of threads; some thousands of them are in memory at a time. Shows a progress bar. UserError (file:line) for records
/// without the column and invalid UTF-8, for `append_eod` without an EOS, and where nothing can be written; Failure when writing fails. Both files
/// are written aside and renamed when they are whole: until then an earlier data set of that name stays, and after an error nothing new is left.
PreprocessResult preprocess(FileOperations& operations, const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                            const std::filesystem::path& prefix, const PreprocessOptions& options);

}  // namespace tessera::data
