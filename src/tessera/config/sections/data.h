#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/sections/model.h"

namespace tessera::config {

enum class DatasetKind : std::uint8_t {
  ColumnMapped,  ///< instruction pairs by column_mapping
  Squad,
  HellaSwag,
  Chat,
  AgentChat,  ///< conversations with calls of tools in any of three forms
  Tulu3,      ///< OpenAI's messages, text only
  Xlam,
  Seq2Seq,
  Text,  ///< Tessera's own: pre-training text from JSONL, Parquet or plain files
  Nanogpt,
  MegatronPretraining,
  MockIterable,
  MockUnpacked,
  MockPacked,
};
/// Random tokens, made here.
constexpr bool is_mock(DatasetKind kind) {
  return kind == DatasetKind::MockIterable || kind == DatasetKind::MockUnpacked || kind == DatasetKind::MockPacked;
}

enum class Padding : std::uint8_t { None, Longest, MaxLength };
enum class Truncation : std::uint8_t { None, LongestFirst };

/// `dataset` and `validation_dataset*`: one struct for every kind, each reading the group that its comment names.
/// A key that the recipe's kind does not have is reported as unknown, so nothing here is silently ignored.
struct Dataset {
  DatasetKind kind = DatasetKind::ColumnMapped;

  // Where the samples are: path_or_dataset_id, path_or_dataset, dataset_name, paths, file_pattern.
  std::vector<std::string> paths;  ///< files, directories, globs or hub names; Megatron: prefixes, alternating with weights for a blend
  /// Megatron only: `paths` given as a map of split -> prefixes.
  std::map<std::string, std::vector<std::string>> paths_per_split;
  std::string name;                                   ///< configuration of a hub dataset
  std::optional<std::string> split;                   ///< "train", "train[:128]"; Megatron: "900,50,50"
  std::optional<std::int64_t> limit_dataset_samples;  ///< also num_samples_limit
  std::optional<std::int64_t> shuffle_seed;

  // How a sample becomes tokens.
  std::optional<Tokenizer> tokenizer;
  std::optional<std::int64_t> seq_length;  ///< also seq_len
  Padding padding = Padding::None;
  Truncation truncation = Truncation::None;

  // ColumnMapped
  std::map<std::string, std::string> column_mapping;  ///< context / question / answer -> column
  bool answer_only_loss_mask = true;
  bool use_hf_chat_template = false;

  // Chat, AgentChat, Tulu3 (and chat_template for Squad)
  std::string chat_template;  ///< a file or the template itself; empty: the tokenizer's
  bool mask_history = false;
  bool mask_reasoning_content = false;
  bool skip_invalid_samples = false;

  // AgentChat
  bool filter_no_assistant = false;
  bool filter_overlong = false;
  bool trim_incomplete_last_turn = false;
  bool drop_history_reasoning_content = false;
  bool truncate_history = false;

  // Seq2Seq
  std::string source_template = "question: {question}  context: {context}";
  std::string source_key = "question";
  std::string target_key = "answers";

  // Text
  std::string text_column = "text";
  bool append_eod = true;  ///< an end-of-document token after each text

  // Nanogpt
  std::optional<std::int64_t> bos_token;
  bool shuffle_files = false;
  bool align_to_bos = false;

  // MegatronPretraining
  std::string index_mapping_dir;
  std::int64_t seed = 1234;  ///< Mock*: 0
  std::int64_t num_dataset_builder_threads = 1;
  std::optional<std::int64_t> num_train_samples;
  std::optional<std::int64_t> num_val_samples;
  std::optional<std::int64_t> num_test_samples;
  std::vector<std::string> splits_to_build;

  // Mock*
  std::int64_t vocab_size = 1024;        ///< MockUnpacked, MockPacked: 100
  std::int64_t num_samples = 1'000'000;  ///< MockUnpacked: num_sentences (10); MockPacked: num_blocks (10)
  std::int64_t batch_size = 1;
  std::int64_t block_size = 128;
  double mean_len = 20.0;
  double std_len = 6.0;
  std::int64_t max_sentence_len = 64;
};

/// `validation_dataset` is named "default", `validation_dataset_foo` is "foo".
struct ValidationDataset {
  std::string name;
  std::string key;  ///< as the recipe spells it
  Dataset dataset;
};

enum class Collate : std::uint8_t { Default, PackedThd };
enum class MegatronOrder : std::uint8_t { Single, Cyclic };

/// `dataloader` and `validation_dataloader`.
struct Dataloader {
  std::optional<bool> shuffle;             ///< absent: true for training, false for validation
  std::optional<std::int64_t> batch_size;  ///< absent: step_scheduler.local_batch_size
  std::int64_t num_workers = 0;            ///< threads that tokenise and collate ahead; 0: chosen here
  bool drop_last = false;
  bool group_by_length = false;
  Collate collate = Collate::Default;
  std::optional<std::int64_t> pad_seq_len_divisible;
  MegatronOrder dataloader_type = MegatronOrder::Single;
};

enum class PackingStrategy : std::uint8_t {
  InOrder,   ///< `thd`: documents in the dataset's order; one that does not fit opens the next pack
  Balanced,  ///< `neat`: documents by descending length, each into the least-filled pack, or a new one where that has no room
};

/// `packed_sequence`; packed_sequence_size 0 is no packing.
struct PackedSequence {
  std::int64_t packed_sequence_size = 0;
  PackingStrategy packing_strategy = PackingStrategy::InOrder;
  std::optional<std::int64_t> max_packs;
  std::optional<bool> drop_long_samples;
};

}  // namespace tessera::config
