#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/dataset/context.h"
#include "tessera/data/dataset/dataset.h"
#include "tessera/data/dataset/instruction.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {

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

/// AutoModel's ColumnMappedTextInstructionDataset over local JSON and JSONL: question-answer pairs. Every record is read and checked at construction
/// (valid JSON and UTF-8, columns, empty answers and prompts, samples longer than the context); tokens are made when a sample is asked for.
class ColumnMappedDataset : public Dataset {
 public:
  /// UserError with the first mistakes found, each with file:line.
  ColumnMappedDataset(Records records, ColumnMappedOptions options, DatasetContext context);
  std::int64_t size() const override { return records_.size(); }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  struct Pair {
    std::optional<std::string> context;
    std::optional<std::string> question;
    std::string answer;
  };
  Pair pair(std::int64_t index) const;
  Pair checked_pair(std::int64_t index) const;
  InstructionSample make_sample(const Pair& pair, const std::string& where) const;
  void check(std::int64_t index);
  void check_columns() const;
  bool uses_template() const;

  Records records_;
  ColumnMappedOptions options_;
  std::vector<std::string> columns_;  ///< the answer's, then those of context and question that the mapping names
  DatasetContext context_;
  LongSamples long_samples_;
};

}  // namespace tessera::data
