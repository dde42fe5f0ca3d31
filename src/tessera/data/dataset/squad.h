#pragma once

#include <cstdint>
#include <string>

#include "tessera/data/dataset/context.h"
#include "tessera/data/dataset/dataset.h"
#include "tessera/data/dataset/instruction.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {

/// AutoModel's make_squad_dataset over local JSON and JSONL: records with the text columns `context` and `question`, and `answers` = {"text": [the
/// answer, …], …}. The prompt is "Context: … Question: … Answer: "; with a chat template it is the user's message and the answer the assistant's. The
/// answer alone is trained on. Every record is read and checked at construction; tokens are made when a sample is asked for.
class SquadDataset : public Dataset {
 public:
  /// UserError with the first mistakes found, each with file:line.
  SquadDataset(Records records, InstructionOptions options, DatasetContext context);
  std::int64_t size() const override { return records_.size(); }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  struct Pair {
    std::string prompt;
    std::string answer;
  };
  Pair pair(std::int64_t index) const;
  InstructionSample make_sample(const Pair& pair, const std::string& where) const;
  void check(std::int64_t index);

  Records records_;
  InstructionOptions options_;
  DatasetContext context_;
  LongSamples long_samples_;
};

}  // namespace tessera::data
