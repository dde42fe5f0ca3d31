#include "tessera/data/dataset/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/config/hub.h"
#include "tessera/core/environment.h"
#include "tessera/core/error.h"
#include "tessera/data/dataset/agent_messages.h"
#include "tessera/data/dataset/chat_dataset.h"
#include "tessera/data/dataset/files.h"
#include "tessera/data/dataset/megatron_dataset.h"
#include "tessera/data/dataset/mock.h"
#include "tessera/data/dataset/nanogpt_dataset.h"
#include "tessera/data/dataset/record_dataset.h"
#include "tessera/data/dataset/text.h"
#include "tessera/data/hub/hub.h"

namespace tessera::data {
namespace {

using config::DatasetKind;

InstructionOptions instruction_options(const config::Dataset& options, const DatasetContext& context) {
  const bool pads = options.padding == config::Padding::MaxLength;
  if (pads && !options.seq_length) {
    throw UserError({"", "padding: max_length needs seq_length", "rows are padded to seq_length", "set seq_length, or padding: do_not_pad"});
  }
  check_sequence_length(options, context.context_length);
  return {.seq_length = options.seq_length.value_or(0),
          .truncate = options.truncation != config::Truncation::None,
          .pad_to_seq_length = pads,
          .answer_only_loss_mask = options.answer_only_loss_mask,
          .mask_history = options.mask_history,
          .mask_reasoning = options.mask_reasoning_content};
}

/// Names of the hub become the folders that hold their files.
std::vector<std::string> on_disk(const config::Dataset& options, const DatasetContext& context) {
  const Environment environment = context.environment ? context.environment : process_environment();
  std::vector<std::string> paths;
  for (const std::string& path : options.paths) {
    const bool hub = !std::filesystem::exists(path) && config::looks_like_hub_name(path);
    paths.push_back(hub ? hub_dataset({path, options.name, options.split.value_or("")}, environment).string() : path);
  }
  return paths;
}

Records records_of(const config::Dataset& options, const DatasetContext& context) {
  Records records(find_data_files(on_disk(options, context), options.split.value_or("")));
  if (options.shuffle_seed) records.shuffle(static_cast<std::uint64_t>(*options.shuffle_seed));
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
  return column_mapped_dataset(records_of(options, context), column_mapped, context);
}

std::unique_ptr<Dataset> build_squad(const config::Dataset& options, const DatasetContext& context) {
  return squad_dataset(records_of(options, context), instruction_options(options, context), context);
}

std::unique_ptr<Dataset> build_hellaswag(const config::Dataset& options, const DatasetContext& context) {
  return hellaswag_dataset(records_of(options, context), options.seq_length.value_or(0), options.padding == config::Padding::MaxLength, context);
}

std::unique_ptr<Dataset> build_chat(const config::Dataset& options, const DatasetContext& context) {
  return std::make_unique<ChatDataset>(records_of(options, context), instruction_options(options, context),
                                       ChatOptions{.skip_invalid = options.skip_invalid_samples}, context);
}

std::unique_ptr<Dataset> build_agent_chat(const config::Dataset& options, const DatasetContext& context) {
  const AgentOptions agent{options.trim_incomplete_last_turn, options.drop_history_reasoning_content};
  const ChatOptions chat{
      .conversation = [agent](const OrderedJson& record, const std::string& where) { return agent_conversation(record, agent, where); },
      .skip_without_assistant = options.filter_no_assistant,
      .shorten_history = options.truncate_history,
      .skip_too_long = options.filter_overlong};
  return std::make_unique<ChatDataset>(records_of(options, context), instruction_options(options, context), chat, context);
}

std::unique_ptr<Dataset> build_tulu3(const config::Dataset& options, const DatasetContext& context) {
  return std::make_unique<ChatDataset>(records_of(options, context), instruction_options(options, context),
                                       ChatOptions{.conversation = tulu3_conversation}, context);
}

std::unique_ptr<Dataset> build_xlam(const config::Dataset& options, const DatasetContext& context) {
  return xlam_dataset(records_of(options, context), instruction_options(options, context), context);
}

std::unique_ptr<Dataset> build_seq2seq(const config::Dataset& options, const DatasetContext& context) {
  return seq2seq_dataset(records_of(options, context), Seq2SeqColumns{options.source_template, options.source_key, options.target_key},
                         instruction_options(options, context), context);
}

std::unique_ptr<Dataset> build_nanogpt(const config::Dataset& options, const DatasetContext& context) {
  if (options.align_to_bos && !options.bos_token)
    throw UserError({"", "align_to_bos needs bos_token", "samples begin with that token", "set bos_token, for gpt2 to 50256"});
  const NanogptOptions nanogpt{.seq_length = options.seq_length.value_or(0),
                               .align_to = options.align_to_bos ? options.bos_token : std::nullopt,
                               .shuffle_files = options.shuffle_files,
                               .vocab_size = context.vocab_size};
  return std::make_unique<NanogptDataset>(find_data_files(options.paths), nanogpt);
}

MegatronSplit split_named(const std::string& name) {
  if (name == "train") return MegatronSplit::Train;
  if (name == "test") return MegatronSplit::Test;
  if (name == "validation" || name == "valid" || name == "val" || name == "dev") return MegatronSplit::Validation;
  throw UserError(
      {"", fmt::format("'{}' is not a split", name), "splits are train, validation and test", "name one of these in paths or splits_to_build"});
}

/// The files of one split, in a recipe's map or a .json file's; absent when all splits share their files.
using PathsPerSplit = std::map<std::string, std::vector<std::string>>;
std::optional<std::vector<std::string>> paths_of_split(const PathsPerSplit& paths, MegatronSplit which) {
  if (paths.empty()) return std::nullopt;
  for (const auto& [name, list] : paths)
    if (split_named(name) == which) return list;
  throw UserError({"", "paths name no files for this split", "a map of paths has an entry for each split that is used",
                   "add an entry for it to paths, or give one list of paths for all splits"});
}

/// A blend file: {"train": ["30", "a", "70", "b"], "valid": […]}, or one list for all splits.
void read_blend_file(const std::string& file, std::vector<std::string>& paths, PathsPerSplit& per_split) {
  const Json blend = read_json_file(file);
  try {
    if (blend.is_object()) {
      per_split = blend.get<PathsPerSplit>();
    } else {
      paths = blend.get<std::vector<std::string>>();
    }
  } catch (const Json::exception&) {
    throw UserError({file, "not a blend", "a list of prefixes with their weights, or a map of split to such a list; all are strings",
                     "for example {\"train\": [\"30\", \"a\", \"70\", \"b\"], \"valid\": [\"c\"]}"});
  }
}

std::unique_ptr<Dataset> build_megatron(const config::Dataset& options, const DatasetContext& context) {
  MegatronOptions megatron{.paths = options.paths,
                           .split = options.split,
                           .which = context.validation ? MegatronSplit::Validation : MegatronSplit::Train,
                           .seq_length = options.seq_length.value_or(2048),
                           .num_samples = std::nullopt,
                           .seed = static_cast<std::uint32_t>(options.seed),
                           .cache = options.index_mapping_dir,
                           .num_threads = static_cast<int>(options.num_dataset_builder_threads),
                           .vocab_size = context.vocab_size};
  if (!options.splits_to_build.empty()) megatron.which = split_named(options.splits_to_build.front());
  PathsPerSplit per_split = options.paths_per_split;
  if (options.paths.size() == 1 && options.paths.front().ends_with(".json")) read_blend_file(options.paths.front(), megatron.paths, per_split);
  if (auto paths = paths_of_split(per_split, megatron.which)) {
    megatron.paths = *std::move(paths);
    megatron.split = std::nullopt;
  }
  const std::optional<std::int64_t> asked[] = {options.num_train_samples ? options.num_train_samples : context.num_samples, options.num_val_samples,
                                               options.num_test_samples};
  megatron.num_samples = asked[static_cast<std::size_t>(megatron.which)];
  return std::make_unique<MegatronDataset>(std::move(megatron));
}

std::unique_ptr<Dataset> build_text(const config::Dataset& options, const DatasetContext& context) {
  const TextOptions text{options.seq_length.value_or(0), options.text_column, options.append_eod, options.split.value_or(""),
                         options.limit_dataset_samples};
  check_sequence_length(options, context.context_length);
  return std::make_unique<TextDataset>(find_data_files(on_disk(options, context), options.split.value_or("")), text, context);
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

std::unique_ptr<Dataset> build_mock_packed(const config::Dataset& options, const DatasetContext& context) {
  check_mock_vocabulary(options, context);
  check_mock_length("max_sentence_len", options.max_sentence_len, 1, context);
  const MockSentencesOptions sentences{options.num_samples, options.mean_len,         options.std_len,
                                       options.vocab_size,  options.max_sentence_len, static_cast<std::uint64_t>(options.seed)};
  return std::make_unique<MockPackedDataset>(MockPackedOptions{options.num_samples, options.block_size, sentences});
}

using Builder = std::unique_ptr<Dataset> (*)(const config::Dataset&, const DatasetContext&);
struct Kind {
  DatasetKind kind;
  Builder build;
  bool reads_text;
};
constexpr std::array kKinds = {Kind{DatasetKind::ColumnMapped, build_column_mapped, true},
                               Kind{DatasetKind::Squad, build_squad, true},
                               Kind{DatasetKind::HellaSwag, build_hellaswag, true},
                               Kind{DatasetKind::Chat, build_chat, true},
                               Kind{DatasetKind::AgentChat, build_agent_chat, true},
                               Kind{DatasetKind::Tulu3, build_tulu3, true},
                               Kind{DatasetKind::Xlam, build_xlam, true},
                               Kind{DatasetKind::Seq2Seq, build_seq2seq, true},
                               Kind{DatasetKind::Text, build_text, true},
                               Kind{DatasetKind::Nanogpt, build_nanogpt, false},
                               Kind{DatasetKind::MegatronPretraining, build_megatron, false},
                               Kind{DatasetKind::MockIterable, build_mock_tokens, false},
                               Kind{DatasetKind::MockUnpacked, build_mock_sentences, false},
                               Kind{DatasetKind::MockPacked, build_mock_packed, false}};

}  // namespace

void check_sequence_length(const config::Dataset& options, std::int64_t context_length) {
  const bool fills_rows = options.padding == config::Padding::MaxLength || options.kind == DatasetKind::Text;
  if (!fills_rows || context_length == 0 || options.seq_length.value_or(0) <= context_length) return;
  throw UserError({"", fmt::format("seq_length: {} is longer than the model's context of {}", *options.seq_length, context_length),
                   "rows of seq_length tokens fit into the model's context", fmt::format("use seq_length {} or less", context_length)});
}

UserError in_section(const UserError& error, const std::string& section) {
  std::vector<Problem> problems = error.problems();
  for (Problem& problem : problems) {
    if (problem.where.empty()) problem.where = section;
  }
  return UserError(std::move(problems));
}

std::unique_ptr<Dataset> build_dataset(const config::Dataset& options, const DatasetContext& context, const std::string& section) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& kind) { return kind.kind == options.kind; });
  TESSERA_ASSERT(found != kKinds.end(), "every kind of dataset has a builder");
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
