#include "tessera/data/dataset/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/temporary.h"
#include "tessera/core/terminal.h"
#include "tessera/core/text.h"
#include "tessera/data/dataset/files.h"
#include "tessera/data/dataset/for_each_index.h"
#include "tessera/data/dataset/records.h"
#include "tessera/data/vocabulary.h"

namespace tessera::data {
namespace {

using Document = std::vector<TokenId>;

class Encoder {
 public:
  Encoder(const TextOptions& options, const DatasetContext& context) : options_(options), context_(context) {}

  Document encode(std::string_view text, const std::string& where) const {
    Document tokens = context_.tokenizer->encode(text, true);
    const auto eos = context_.tokenizer->special_tokens().eos;
    if (options_.append_end_of_text && (tokens.empty() || tokens.back() != *eos)) tokens.push_back(*eos);
    if (context_.vocab_size > 0) check_vocabulary(tokens, context_.vocab_size, where);
    return tokens;
  }

  /// Some thousands of records at a time, in their order: `take` gets their tokens, end to end, and their number.
  void for_each_block(const std::filesystem::path& file, const std::function<void(const Document&, std::int64_t)>& take) const {
    constexpr std::int64_t kAtOnce = 4096;
    const Records records({file});
    ProgressBar bar("tokenising " + file.filename().string(), static_cast<std::uint64_t>(records.size()));
    for (std::int64_t begin = 0; begin < records.size(); begin += kAtOnce) {
      std::vector<Document> documents(static_cast<std::size_t>(std::min(kAtOnce, records.size() - begin)));
      for_each_index(std::ssize(documents), context_.num_threads, "tokenising", [&](std::int64_t index) {
        const OrderedJson record = records.record(begin + index);
        const std::string where = records.where(begin + index);
        documents[static_cast<std::size_t>(index)] = encode(needed_text(record, options_.text_column, where), where);
      });
      Document block;
      for (const Document& document : documents) block.insert(block.end(), document.begin(), document.end());
      take(block, std::ssize(documents));
      bar.advance(documents.size());
    }
  }

  Document encode_file(const std::filesystem::path& path) const { return encode(read_plain_text(path), path.string()); }

 private:
  const TextOptions& options_;
  const DatasetContext& context_;
};

void check_options(const TextOptions& options, const DatasetContext& context) {
  ProblemList problems;
  if (options.seq_length < 1)
    problems.add(
        {"", "seq_length is not given", "pre-training text is cut into windows of seq_length tokens", "set seq_length, for example to 1024"});
  if (options.append_end_of_text && !context.tokenizer->special_tokens().eos) {
    problems.add({"", "append_eod is set, but the tokenizer has no end-of-text token", "each document is closed by the tokenizer's EOS",
                  "use append_eod: false"});
  }
  problems.throw_if_any();
}

std::string names_of(const std::vector<std::filesystem::path>& files) {
  return files.size() == 1 ? files.front().string() : fmt::format("{} and {} more file(s)", files.front().string(), files.size() - 1);
}

}  // namespace

TextDataset::TextDataset(const std::vector<std::filesystem::path>& files, TextOptions options, const DatasetContext& context)
    : options_(std::move(options)) {
  check_options(options_, context);
  const Encoder encoder(options_, context);
  TemporaryFile written("the tokens of text are kept there");
  const auto append = [&](const Document& tokens, std::int64_t num_documents) {
    written.write(std::span(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(TokenId)));
    num_documents_ += num_documents;
  };
  for (const auto& file : files) {
    if (holds_records(file)) {
      encoder.for_each_block(file, append);
    } else {
      append(encoder.encode_file(file), 1);
    }
  }
  tokens_.emplace(written.path());
  if (num_tokens() < 2)
    throw UserError({names_of(files), "the dataset is empty", "a window has at least one token and its successor",
                     "check the dataset's path and split: the files hold no text"});
  windows_ = slice_of_split(options_.split, options_.limit, (num_tokens() - 1 + options_.seq_length - 1) / options_.seq_length);
  if (size() == 0)
    throw UserError({names_of(files), fmt::format("split {} keeps no window", options_.split), "its slice counts windows of seq_length tokens",
                     "choose a wider slice"});
}

std::span<const TokenId> TextDataset::tokens() const {
  const std::span<const std::byte> bytes = tokens_->bytes();
  return {reinterpret_cast<const TokenId*>(bytes.data()), bytes.size() / sizeof(TokenId)};
}

std::int64_t TextDataset::size() const { return windows_.end - windows_.begin; }

Sample TextDataset::sample(std::int64_t index) const {
  const auto begin = tokens().begin() + (windows_.begin + index) * options_.seq_length;
  const auto length = std::min<std::int64_t>(options_.seq_length, tokens().end() - begin - 1);
  Sample sample;
  sample.input_ids.assign(begin, begin + length);
  sample.labels.assign(begin + 1, begin + 1 + length);
  sample.number = index;
  return sample;
}

std::string TextDataset::description() const {
  return fmt::format("{} windows of {} from {} tokens in {} document(s)", size(), options_.seq_length, human_count(static_cast<double>(num_tokens())),
                     num_documents_);
}

}  // namespace tessera::data
