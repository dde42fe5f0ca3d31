#pragma once

#include <cstdint>
#include <string>

#include "tessera/data/dataset/context.h"
#include "tessera/data/dataset/dataset.h"
#include "tessera/data/dataset/instruction.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {

struct Seq2SeqColumns {
  std::string source_template;  ///< "question: {question}  context: {context}": columns in braces; empty: the text of `source_key`
  std::string source_key;
  std::string target_key;  ///< a text, or SQuAD's {"text": [the answer, …]}
};

/// AutoModel's make_seq2seq_dataset over local files, for a causal model: the source is the prompt, followed by a space, and the target the answer,
/// which alone is trained on. Every record is read and checked at construction.
class Seq2SeqDataset : public Dataset {
 public:
  /// UserError with the first mistakes found, each with file:line.
  Seq2SeqDataset(Records records, Seq2SeqColumns columns, InstructionOptions options, DatasetContext context);
  std::int64_t size() const override { return records_.size(); }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  struct Pair {
    std::string source;
    std::string target;
  };
  Pair pair(std::int64_t index) const;
  InstructionSample make_sample(const Pair& pair, const std::string& where) const;

  Records records_;
  Seq2SeqColumns columns_;
  InstructionOptions options_;
  DatasetContext context_;
  LongSamples long_samples_;
};

}  // namespace tessera::data
