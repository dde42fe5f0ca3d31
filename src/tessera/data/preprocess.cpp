#include "tessera/data/preprocess.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/terminal.h"
#include "tessera/core/writable.h"
#include "tessera/data/dataset/files.h"
#include "tessera/data/dataset/for_each_index.h"
#include "tessera/data/dataset/records.h"
#include "tessera/formats/megatron.h"

namespace tessera::data {
namespace {

constexpr std::int64_t kDocumentsAtOnce = 4096;

/// A .bin and its .idx under a name of their own until both are whole; what is not completed is removed.
class UnfinishedPair {
 public:
  explicit UnfinishedPair(std::filesystem::path target) : target_(std::move(target)), prefix_(target_.string() + ".incomplete") {}
  ~UnfinishedPair() {
    std::error_code ignored;
    for (const char* ending : {".bin", ".idx"}) std::filesystem::remove(prefix_.string() + ending, ignored);
  }
  UnfinishedPair(const UnfinishedPair&) = delete;
  UnfinishedPair& operator=(const UnfinishedPair&) = delete;
  const std::filesystem::path& prefix() const { return prefix_; }

  void complete(FileOperations& operations) {
    operations.remove_all(target_.string() + ".idx");  // an earlier one does not go with the new .bin
    for (const char* ending : {".bin", ".idx"}) operations.rename(prefix_.string() + ending, target_.string() + ending);
  }

 private:
  std::filesystem::path target_;
  std::filesystem::path prefix_;
};

class Preprocessor {
 public:
  Preprocessor(const Tokenizer& tokenizer, const PreprocessOptions& options, formats::MegatronWriter& writer)
      : tokenizer_(tokenizer), options_(options), writer_(writer) {}

  void add_file(const std::filesystem::path& file) {
    if (!holds_records(file)) {
      std::string text = read_plain_text(file);
      add_documents(1, [&](std::int64_t) { return text; });
      return;
    }
    const Records records({file});
    ProgressBar bar("tokenising " + file.filename().string(), static_cast<std::uint64_t>(records.size()));
    for (std::int64_t begin = 0; begin < records.size(); begin += kDocumentsAtOnce) {
      const std::int64_t count = std::min(kDocumentsAtOnce, records.size() - begin);
      add_documents(
          count, [&](std::int64_t index) { return needed_text(records.record(begin + index), options_.text_column, records.where(begin + index)); });
      bar.advance(static_cast<std::uint64_t>(count));
    }
  }

  std::int64_t text_bytes() const { return text_bytes_; }

 private:
  template <class TextOf>
  void add_documents(std::int64_t count, const TextOf& text_of) {
    std::vector<std::vector<TokenId>> documents(static_cast<std::size_t>(count));
    std::vector<std::int64_t> sizes(documents.size());
    for_each_index(count, options_.num_threads, "tokenising", [&](std::int64_t index) {
      const std::string text = text_of(index);
      sizes[static_cast<std::size_t>(index)] = std::ssize(text);
      documents[static_cast<std::size_t>(index)] = encode(text);
    });
    for (std::size_t index = 0; index < documents.size(); ++index) {
      writer_.add_document(documents[index]);
      text_bytes_ += sizes[index];
    }
  }

  std::vector<TokenId> encode(const std::string& text) const {
    if (text.empty()) return {};
    std::vector<TokenId> tokens = tokenizer_.encode(text, true);
    if (options_.append_eod && !tokens.empty()) tokens.push_back(*tokenizer_.special_tokens().eos);
    return tokens;
  }

  const Tokenizer& tokenizer_;
  const PreprocessOptions& options_;
  formats::MegatronWriter& writer_;
  std::int64_t text_bytes_ = 0;
};

}  // namespace

PreprocessResult preprocess(FileOperations& operations, const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                            const std::filesystem::path& prefix, const PreprocessOptions& options) {
  if (options.append_eod && !tokenizer.special_tokens().eos)
    throw UserError({"", "the tokenizer has no end-of-text token", "each document is closed by it", "leave out --append-eod"});
  PreprocessResult result{.prefix = fmt::format("{}_{}_document", prefix.string(), options.text_column)};
  check_can_create(result.prefix);
  UnfinishedPair pair(result.prefix);
  formats::MegatronWriter writer(operations, pair.prefix(), formats::megatron_type_for(tokenizer.vocab_size()));
  Preprocessor preprocessor(tokenizer, options, writer);
  for (const auto& file : files) preprocessor.add_file(file);
  writer.finish();
  pair.complete(operations);
  result.num_documents = writer.num_documents();
  result.num_tokens = writer.num_tokens();
  result.text_bytes = preprocessor.text_bytes();
  return result;
}

}  // namespace tessera::data
