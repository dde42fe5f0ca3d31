#include "tessera/config/sections/read.h"

namespace tessera::config {

namespace {

using D = Dataset;

/// false, "do_not_pad"; true, "longest"; "max_length": transformers' spellings.
Key<D> padding() {
  return {"padding", [](const Scope& scope, const Node& node, D& section) {
            static const Choices<Padding> choices = {{"false", Padding::None},
                                                     {"do_not_pad", Padding::None},
                                                     {"true", Padding::Longest},
                                                     {"longest", Padding::Longest},
                                                     {"max_length", Padding::MaxLength}};
            if (is_null(node)) return;
            if (const auto value = read_choice(scope, node, choices)) section.padding = *value;
          }};
}

Key<D> truncation() {
  return {"truncation", [](const Scope& scope, const Node& node, D& section) {
            static const Choices<Truncation> choices = {{"false", Truncation::None},
                                                        {"do_not_truncate", Truncation::None},
                                                        {"true", Truncation::LongestFirst},
                                                        {"longest_first", Truncation::LongestFirst},
                                                        {"only_first", Truncation::LongestFirst}};
            if (is_null(node)) return;
            if (const auto value = read_choice(scope, node, choices)) section.truncation = *value;
          }};
}

Key<D> tokenizer_key() {
  return {"tokenizer", [](const Scope& scope, const Node& node, D& section) {
            if (is_null(node)) return;
            section.tokenizer = Tokenizer{};
            read_tokenizer(scope, node, *section.tokenizer);
          }};
}

Key<D> start_of_turn_token() { return inert<D>("start_of_turn_token", Type::String, "has no effect: what the assistant says is found without it"); }

Key<D> limit(std::string name) { return field(std::move(name), &D::limit_dataset_samples, at_least(1)); }
Key<D> seq_length(std::string name) { return field(std::move(name), &D::seq_length, at_least(1)); }

Keys<D> tokenized_keys() {
  return {seq_length("seq_length"), padding(), truncation(), tokenizer_key(), limit("limit_dataset_samples"), target_key<D>()};
}

Key<D> column_mapping() {
  return {"column_mapping", [](const Scope& scope, const Node& node, D& section) {
            if (is_null(node) || !read_value(scope, node, section.column_mapping)) return;
            const std::vector<std::string> roles = {"context", "question", "answer"};
            for (const Entry& entry : node.entries) {
              if (std::ranges::find(roles, entry.key) == roles.end()) report_unknown_key(scope, entry, roles);
            }
            if (!section.column_mapping.contains("answer")) {
              scope.mistake(node, "no column is the answer", "a sample is a question or context (or both) and an answer", "add answer: COLUMN");
            }
          }};
}

Keys<D> column_mapped_keys() {
  return tokenized_keys() +
         Keys<D>{
             field("path_or_dataset_id", &D::paths),
             column_mapping(),
             split_key(),
             field("name", &D::name),
             field("answer_only_loss_mask", &D::answer_only_loss_mask),
             field("use_hf_chat_template", &D::use_hf_chat_template),
             start_of_turn_token(),
             // Of the streamed variant.
             inert<D>("repeat_on_exhaustion", Type::Bool, "has no effect: step_scheduler says how many epochs there are"),
             refused<D>("delta_storage_options", Type::Any, Support::NotSupported, "Delta Lake tables are not read; export them to Parquet"),
             refused<D>("delta_version", Type::Any, Support::NotSupported, "Delta Lake tables are not read; export them to Parquet"),
             refused<D>("delta_sql_query", Type::Any, Support::NotSupported, "Delta Lake tables are not read; export them to Parquet"),
         };
}

Keys<D> squad_keys() {
  return tokenized_keys() + Keys<D>{field("dataset_name", &D::paths), split_key(), field("chat_template", &D::chat_template),
                                    limit("num_samples_limit"),
                                    refused<D>("fp8", Type::Bool, Support::NotSupported, "training in FP8 needs kernels of TransformerEngine")};
}

Keys<D> hellaswag_keys() {
  return {field("path_or_dataset", &D::paths),
          split_key(),
          limit("num_samples_limit"),
          limit("limit_dataset_samples"),
          seq_length("seq_length"),
          {"pad_to_max_length",
           [](const Scope& scope, const Node& node, D& section) {
             bool pad = false;
             if (!is_null(node) && read_value(scope, node, pad)) section.padding = pad ? Padding::MaxLength : Padding::None;
           }},
          tokenizer_key(),
          accepted<D>("trust_remote_code", Type::Bool),
          target_key<D>()};
}

Keys<D> chat_keys() {
  return tokenized_keys() + Keys<D>{
                                field("path_or_dataset_id", &D::paths),
                                split_key(),
                                field("name", &D::name),
                                field("chat_template", &D::chat_template),
                                start_of_turn_token(),
                                field("shuffle_seed", &D::shuffle_seed),
                                field("mask_history", &D::mask_history),
                                field("mask_reasoning_content", &D::mask_reasoning_content),
                                field("skip_invalid_samples", &D::skip_invalid_samples),
                                refused<D>("unshifted", Type::Bool, Support::NotSupported, "it belongs to diffusion models; labels are shifted here"),
                            };
}

Keys<D> agent_chat_keys() {
  return tokenized_keys() + Keys<D>{field("dataset_name", &D::paths),
                                    field("path", &D::paths),
                                    split_key(),
                                    refused<D>("revision", Type::String, Support::NotSupported,
                                               "the hub's newest revision is read; fetch another with hf download --revision, and name its folder"),
                                    field("chat_template", &D::chat_template),
                                    field("filter_no_assistant", &D::filter_no_assistant),
                                    field("filter_overlong", &D::filter_overlong),
                                    field("trim_incomplete_last_turn", &D::trim_incomplete_last_turn),
                                    field("mask_reasoning_content", &D::mask_reasoning_content),
                                    field("train_on_last_turn_only", &D::mask_history),
                                    field("drop_history_reasoning_content", &D::drop_history_reasoning_content),
                                    field("truncate_history", &D::truncate_history)};
}

Keys<D> tulu3_keys() {
  return tokenized_keys() + Keys<D>{field("path_or_dataset", &D::paths), split_key(), field("chat_template", &D::chat_template),
                                    // Ignored by AutoModel too.
                                    accepted<D>("truncate", Type::Bool)};
}

Keys<D> seq2seq_keys() {
  return tokenized_keys() + Keys<D>{field("dataset_name", &D::paths),
                                    split_key(),
                                    field("source_template", &D::source_template),
                                    field("source_key", &D::source_key),
                                    field("target_key", &D::target_key),
                                    refused<D>("decoder_start_token_id", Type::Int, Support::NotSupported, "there are no encoder-decoder models")};
}

Keys<D> text_keys() {
  return {field("paths", &D::paths),
          field("path_or_dataset_id", &D::paths),
          split_key(),
          field("text_column", &D::text_column),
          field("append_eod", &D::append_eod),
          seq_length("seq_length"),
          limit("limit_dataset_samples"),
          tokenizer_key(),
          target_key<D>()};
}

Keys<D> nanogpt_keys() {
  return {field("file_pattern", &D::paths),
          seq_length("seq_len"),
          field("bos_token", &D::bos_token, at_least(0)),
          field("shuffle_files", &D::shuffle_files),
          field("align_to_bos", &D::align_to_bos),
          tokenizer_key(),
          target_key<D>()};
}

/// A list of prefixes (weights between them), one prefix, or a map of split -> list.
Key<D> megatron_paths() {
  return {"paths", [](const Scope& scope, const Node& node, D& section) {
            if (is_null(node)) return;
            if (!node.is_map()) {
              read_value(scope, node, section.paths);
              return;
            }
            for (const Entry& entry : node.entries) read_value(scope.child(entry.key), entry.value, section.paths_per_split[entry.key]);
          }};
}

Keys<D> megatron_keys() {
  constexpr std::string_view schedule = "has no effect: the step scheduler decides";
  return {
      megatron_paths(),
      seq_length("seq_length"),
      shares_key(),
      field("seed", &D::seed),
      field("index_mapping_dir", &D::index_mapping_dir),
      inert<D>("create_attention_mask", Type::Bool, "has no effect: masks are computed from document boundaries"),
      always<D>("mmap_bin_files", "files are always mapped"),
      field("num_dataset_builder_threads", &D::num_dataset_builder_threads, at_least(1)),
      field("num_train_samples", &D::num_train_samples, at_least(1)),
      field("num_val_samples", &D::num_val_samples, at_least(1)),
      field("num_test_samples", &D::num_test_samples, at_least(1)),
      field("splits_to_build", &D::splits_to_build),
      inert<D>("micro_batch_size", Type::Int, std::string(schedule)),
      inert<D>("global_batch_size", Type::Int, std::string(schedule)),
      inert<D>("trainer_max_steps", Type::Int, std::string(schedule)),
      inert<D>("trainer_val_check_interval", Type::Int, std::string(schedule)),
      inert<D>("trainer_limit_val_batches", Type::Number, "has no effect: a validation set is measured whole"),
      inert<D>("trainer_limit_test_batches", Type::Number, "has no effect: there are no test runs"),
      refused<D>("object_storage_config", Type::Any, Support::NotSupported, "data is read from local files"),
      tokenizer_key(),
      target_key<D>(),
  };
}

Keys<D> mock_iterable_keys() {
  return {field("vocab_size", &D::vocab_size, at_least(1)),
          seq_length("seq_len"),
          field("num_samples", &D::num_samples, at_least(1)),
          field("batch_size", &D::batch_size, at_least(1)),
          field("seed", &D::seed),
          tokenizer_key(),
          target_key<D>()};
}

Keys<D> mock_sentence_keys(std::string count, Key<D> block_size) {
  return {field(std::move(count), &D::num_samples, at_least(1)),
          std::move(block_size),
          field("mean_len", &D::mean_len, above(0)),
          field("std_len", &D::std_len, at_least(0)),
          field("vocab_size", &D::vocab_size, at_least(1)),
          field("max_sentence_len", &D::max_sentence_len, at_least(1)),
          field("seed", &D::seed),
          tokenizer_key(),
          target_key<D>()};
}

Keys<D> dataset_keys(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::ColumnMapped:
      return column_mapped_keys();
    case DatasetKind::Squad:
    case DatasetKind::Xlam:
      return squad_keys();
    case DatasetKind::HellaSwag:
      return hellaswag_keys();
    case DatasetKind::Chat:
      return chat_keys();
    case DatasetKind::AgentChat:
      return agent_chat_keys();
    case DatasetKind::Tulu3:
      return tulu3_keys();
    case DatasetKind::Seq2Seq:
      return seq2seq_keys();
    case DatasetKind::Text:
      return text_keys();
    case DatasetKind::Nanogpt:
      return nanogpt_keys();
    case DatasetKind::MegatronPretraining:
      return megatron_keys();
    case DatasetKind::MockIterable:
      return mock_iterable_keys();
    case DatasetKind::MockUnpacked:
      return mock_sentence_keys("num_sentences", inert<D>("block_size", Type::Int, "these sentences are not packed"));
    case DatasetKind::MockPacked:
      return mock_sentence_keys("num_blocks", field("block_size", &D::block_size, at_least(1)));
  }
  return {};
}

/// What differs from the struct's defaults.
void set_kind_defaults(D& section) {
  switch (section.kind) {
    case DatasetKind::ColumnMapped:
      section.split = "train";
      break;
    case DatasetKind::Squad:
      section.split = "train";
      section.paths = {"squad"};
      break;
    case DatasetKind::Xlam:
      section.split = "train";
      section.paths = {"Salesforce/xlam-function-calling-60k"};
      break;
    case DatasetKind::Seq2Seq:
      section.split = "train";
      section.paths = {"rajpurkar/squad"};
      section.truncation = Truncation::LongestFirst;
      break;
    case DatasetKind::AgentChat:
      section.split = "train";
      break;
    case DatasetKind::Tulu3:
      section.split = "train";
      section.paths = {"allenai/tulu-3-sft-mixture"};
      break;
    case DatasetKind::HellaSwag:
      section.split = "train";
      section.padding = Padding::MaxLength;
      break;
    case DatasetKind::MegatronPretraining:
      section.split = "900,50,50";
      section.seq_length = 2048;
      break;
    case DatasetKind::MockIterable:
      section.seq_length = 1024;
      section.seed = 0;
      break;
    case DatasetKind::MockUnpacked:
    case DatasetKind::MockPacked:
      section.vocab_size = 100;
      section.num_samples = 10;
      section.seed = 0;
      break;
    case DatasetKind::Chat:
    case DatasetKind::Text:
    case DatasetKind::Nanogpt:
      break;
  }
}

std::string_view path_key(DatasetKind kind) {
  switch (kind) {
    case DatasetKind::HellaSwag:
      return "path_or_dataset";
    case DatasetKind::Nanogpt:
      return "file_pattern";
    case DatasetKind::MegatronPretraining:
    case DatasetKind::Text:
      return "paths";
    case DatasetKind::AgentChat:
      return "dataset_name";
    default:
      return "path_or_dataset_id";
  }
}

/// As AutoModel does, which also warns of a seq_length that caps nothing.
void check_agent_chat(const Scope& scope, const Node& node, const D& section) {
  if (node.find("dataset_name") && node.find("path")) {
    scope.mistake(node, "dataset_name and path are both given", "each of them names the data", "leave one of them out");
  }
  if (section.filter_overlong && !section.seq_length)
    scope.mistake(node, "filter_overlong needs seq_length", "conversations of more tokens are left out", "set seq_length");
  const bool used =
      section.truncation != Truncation::None || section.padding == Padding::MaxLength || section.truncate_history || section.filter_overlong;
  if (section.seq_length && !used)
    scope.child("seq_length")
        .note("limits nothing: set truncation, truncate_history or filter_overlong to shorten or leave out longer conversations");
}

void check_dataset(const Scope& scope, const Node& node, const D& section) {
  if (section.kind == DatasetKind::AgentChat) check_agent_chat(scope, node, section);
  if (!is_mock(section.kind) && section.paths.empty() && section.paths_per_split.empty()) {
    scope.mistake(node, std::string(path_key(section.kind)) + " is missing", "it names the files or the hub data set",
                  "add " + std::string(path_key(section.kind)) + ": FILE");
  }
  if (section.kind == DatasetKind::ColumnMapped && !node.find("column_mapping")) {
    scope.mistake(node, "column_mapping is missing", "it says which columns are question and answer",
                  "add column_mapping: {question: COLUMN, answer: COLUMN}");
  }
  if (section.kind == DatasetKind::Nanogpt && !section.seq_length)
    scope.mistake(node, "seq_len is missing", "shards are cut into pieces of this length", "add for example seq_len: 1024");
}

}  // namespace

bool read_dataset(const Scope& scope, const Node& node, Dataset& section) {
  if (!check_type(scope, node, Type::Map)) return false;
  if (!has_target(node)) {
    scope.mistake(node, "has no _target_", "it names the kind of dataset", "add for example _target_: instruction");
    return false;
  }
  const Target* target = read_target(scope, node, TargetKind::Dataset);
  if (!target || target->value < 0) return false;
  section.kind = static_cast<DatasetKind>(target->value);
  set_kind_defaults(section);
  read_section(scope, node, dataset_keys(section.kind), section);
  check_dataset(scope, node, section);
  return true;
}

}  // namespace tessera::config
