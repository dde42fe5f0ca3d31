#include "tessera/data/dataset/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/core/error.h"
#include "tessera/data/dataset/column_mapped.h"
#include "tessera/data/dataset/files.h"
#include "tessera/data/dataset/mock.h"
#include "tessera/data/dataset/squad.h"
#include "tessera/data/dataset/text.h"

namespace tessera::data {
namespace {

using config::DatasetKind;

InstructionOptions instruction_options(const config::Dataset& options, const DatasetContext& context) {
  const bool pads = options.padding == config::Padding::MaxLength;
  if (pads && !options.seq_length) {
    throw UserError({"", "padding: max_length needs seq_length", "rows are padded to seq_length", "set seq_length, or padding: do_not_pad"});
  }
  if (pads && context.context_length > 0 && *options.seq_length > context.context_length) {
    throw UserError({"", fmt::format("seq_length: {} is longer than the model's context of {}", *options.seq_length, context.context_length),
                     "padded rows fit into the model's context", fmt::format("use seq_length {} or less", context.context_length)});
  }
  return {.seq_length = options.seq_length.value_or(0),
          .truncate = options.truncation != config::Truncation::None,
          .pad_to_seq_length = pads,
          .answer_only_loss_mask = options.answer_only_loss_mask};
}

JsonRecords records_of(const config::Dataset& options) {
  JsonRecords records(find_data_files(options.paths));
  const IndexRange range = slice_of_split(options.split.value_or(""), options.limit_dataset_samples, records.size());
  records.keep(range.begin, range.end);
  return records;
}

ColumnMapping mapping_of(const config::Dataset& options) {
  ColumnMapping mapping;
  for (const auto& [part, column] : options.column_mapping) {
    if (part == "context") mapping.context = column;
    if (part == "question") mapping.question = column;
    if (part == "answer") mapping.answer = column;
  }
  if (mapping.answer.empty() || (!mapping.context && !mapping.question)) {
    throw UserError({"", "column_mapping does not name an answer and a question or context", "a pair has a prompt and an answer",
                     "for example column_mapping: {question: prompt, answer: completion}"});
  }
  return mapping;
}

std::unique_ptr<Dataset> build_column_mapped(const config::Dataset& options, const DatasetContext& context) {
  const ColumnMappedOptions column_mapped{mapping_of(options), instruction_options(options, context), options.use_hf_chat_template};
  return std::make_unique<ColumnMappedDataset>(records_of(options), column_mapped, context);
}

std::unique_ptr<Dataset> build_squad(const config::Dataset& options, const DatasetContext& context) {
  return std::make_unique<SquadDataset>(records_of(options), instruction_options(options, context), context);
}

std::unique_ptr<Dataset> build_text(const config::Dataset& options, const DatasetContext& context) {
  const TextOptions text{options.seq_length.value_or(0), options.text_column, options.append_eod};
  return std::make_unique<TextDataset>(find_data_files(options.paths), text, context);
}

void check_mock_vocabulary(const config::Dataset& options, const DatasetContext& context) {
  if (options.vocab_size > 2 && (context.vocab_size == 0 || options.vocab_size <= context.vocab_size)) return;
  throw UserError({"", fmt::format("vocab_size: {} does not fit the model's vocabulary of {}", options.vocab_size, context.vocab_size),
                   "mock tokens are ids of the model", fmt::format("use vocab_size {}", context.vocab_size)});
}

void check_mock_length(const std::string& key, std::int64_t length, std::int64_t extra, const DatasetContext& context) {
  if (context.context_length == 0 || length + extra <= context.context_length) return;
  throw UserError({"", fmt::format("{}: {} makes samples of {} positions, the model has {}", key, length, length + extra, context.context_length),
                   "a sample fits into the model's context (max_position_embeddings)",
                   fmt::format("use {} {} or less", key, context.context_length - extra)});
}

std::unique_ptr<Dataset> build_mock_tokens(const config::Dataset& options, const DatasetContext& context) {
  check_mock_vocabulary(options, context);
  check_mock_length("seq_len", options.seq_length.value_or(1024), 0, context);
  // AutoModel's mock yields whole batches; here its rows are samples like any others.
  const std::int64_t rows = options.num_samples * std::max<std::int64_t>(1, options.batch_size);
  return std::make_unique<MockTokensDataset>(
      MockTokensOptions{rows, options.seq_length.value_or(1024), options.vocab_size, static_cast<std::uint64_t>(options.seed)});
}

std::unique_ptr<Dataset> build_mock_sentences(const config::Dataset& options, const DatasetContext& context) {
  check_mock_vocabulary(options, context);
  check_mock_length("max_sentence_len", options.max_sentence_len, 1, context);  // the end of the sentence comes on top
  return std::make_unique<MockSentencesDataset>(MockSentencesOptions{options.num_samples, options.mean_len, options.std_len, options.vocab_size,
                                                                     options.max_sentence_len, static_cast<std::uint64_t>(options.seed)});
}

using Builder = std::unique_ptr<Dataset> (*)(const config::Dataset&, const DatasetContext&);
struct Kind {
  DatasetKind kind;
  Builder build;
  bool reads_text;
};
constexpr std::array kKinds = {Kind{DatasetKind::ColumnMapped, build_column_mapped, true}, Kind{DatasetKind::Squad, build_squad, true},
                               Kind{DatasetKind::Text, build_text, true}, Kind{DatasetKind::MockIterable, build_mock_tokens, false},
                               Kind{DatasetKind::MockUnpacked, build_mock_sentences, false}};

/// Puts the recipe's section before messages that name no file.
UserError in_section(const UserError& error, const std::string& section) {
  std::vector<Problem> problems = error.problems();
  for (Problem& problem : problems) {
    if (problem.where.empty()) problem.where = section;
  }
  return UserError(std::move(problems));
}

}  // namespace

std::unique_ptr<Dataset> build_dataset(const config::Dataset& options, const DatasetContext& context, const std::string& section) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& kind) { return kind.kind == options.kind; });
  if (found == kKinds.end())
    throw UserError({section, "this kind of dataset is not supported yet", "", "use instruction pairs, SQuAD records, text or a mock dataset"});
  if (found->reads_text && !context.tokenizer)
    throw UserError({section, "there is no tokenizer to read text with", "the tokenizer is the recipe's, the dataset's or the model directory's",
                     "set dataset.tokenizer.pretrained_model_name_or_path"});
  try {
    return found->build(options, context);
  } catch (const UserError& error) {
    throw in_section(error, section);
  }
}

}  // namespace tessera::data
