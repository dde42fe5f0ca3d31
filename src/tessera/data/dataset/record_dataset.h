#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tessera/data/dataset/dataset.h"
#include "tessera/data/dataset/instruction.h"
#include "tessera/data/dataset/records.h"

/// Datasets that make one sample of each record of local files, as AutoModel does. Every record is read and checked at construction (UserError with
/// the first mistakes found, each with file:line); tokens are made when a sample is asked for.
namespace tessera::data {

/// What records of one kind have of their own. The functions may be called from many threads at once.
struct RecordKind {
  std::string description;              ///< "SQuAD questions"
  InstructionOptions instruction = {};  ///< says which samples are too long
  bool pad_to_longest = false;          ///< to its length, rounded up to a multiple of 8; this makes every sample once
  /// Refuses a record that nothing can be trained on; otherwise the most bytes that its sample is made of.
  std::function<std::int64_t(const Records& from, std::int64_t index)> check;
  std::function<InstructionSample(const Records& from, std::int64_t index)> make_sample;
  std::string manner = {};  ///< how samples are made, at the end of the description: ", chat template"
};

class RecordDataset final : public Dataset {
 public:
  RecordDataset(Records records, const DatasetContext& context, RecordKind kind);
  std::int64_t size() const override { return records_.size(); }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  Records records_;
  RecordKind kind_;
  LongSamples long_samples_;
  std::int64_t padded_length_ = 0;
};

/// Which column plays which part. The answer is needed, and one of the others.
struct ColumnMapping {
  std::optional<std::string> context;
  std::optional<std::string> question;
  std::string answer;
};
struct ColumnMappedOptions {
  ColumnMapping columns;
  InstructionOptions instruction;
  /// Render system (the context), user and assistant messages with the tokenizer's chat template, when it has one. Otherwise the prompt is
  /// context and question, each followed by a space.
  bool use_chat_template = false;
};
/// ColumnMappedTextInstructionDataset: question-answer pairs.
std::unique_ptr<Dataset> column_mapped_dataset(Records records, const ColumnMappedOptions& options, const DatasetContext& context);

/// make_squad_dataset: records with the text columns `context` and `question`, and `answers` = {"text": [the answer, …], …}. The prompt is
/// "Context: … Question: … Answer: "; with a chat template it is the user's message and the answer the assistant's. The answer alone is trained on.
std::unique_ptr<Dataset> squad_dataset(Records records, const InstructionOptions& options, const DatasetContext& context);

/// HellaSwag: records with `ctx`, `endings` (a list of texts) and `label` (which of them is right, a number or its text). Context and ending are
/// encoded apart, each with the tokenizer's own special tokens, except where they meet; the ending is trained on. `seq_length`: samples are cut to
/// it; 0: not at all.
std::unique_ptr<Dataset> hellaswag_dataset(Records records, std::int64_t seq_length, bool pad, const DatasetContext& context);

/// make_xlam_dataset: xLAM's records (https://huggingface.co/datasets/Salesforce/xlam-function-calling-60k). `query` is the user's message, `answers`
/// the calls of the assistant's, which alone are trained on, `tools` the functions with their parameters as JSON Schema. UserError for a missing
/// template.
std::unique_ptr<Dataset> xlam_dataset(Records records, const InstructionOptions& options, const DatasetContext& context);

struct Seq2SeqColumns {
  std::string source_template;  ///< "question: {question}  context: {context}": columns in braces; empty: the text of `source_key`
  std::string source_key;
  std::string target_key;  ///< a text, or SQuAD's {"text": [the answer, …]}
};
/// make_seq2seq_dataset for a causal model: the source is the prompt, followed by a space, and the target the answer, which alone is trained on.
std::unique_ptr<Dataset> seq2seq_dataset(Records records, const Seq2SeqColumns& columns, const InstructionOptions& options,
                                         const DatasetContext& context);

}  // namespace tessera::data
