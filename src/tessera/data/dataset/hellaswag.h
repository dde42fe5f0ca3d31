#pragma once

#include <cstdint>
#include <string>

#include "tessera/data/dataset/context.h"
#include "tessera/data/dataset/dataset.h"
#include "tessera/data/dataset/instruction.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {

/// AutoModel's HellaSwag over local files: records with `ctx`, `endings` (a list of texts) and `label` (which of them is right, a number or its
/// text). Context and ending are encoded apart, each with the tokenizer's own special tokens, except where they meet; the ending is trained on.
class HellaSwagDataset : public Dataset {
 public:
  /// `seq_length`: samples are cut to it; 0: not at all. `pad`: every sample is padded to the longest one's length, rounded up to a multiple of 8;
  /// this makes every sample once. UserError with the first mistakes found, each with file:line.
  HellaSwagDataset(Records records, std::int64_t seq_length, bool pad, DatasetContext context);
  std::int64_t size() const override { return records_.size(); }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  struct Pair {
    std::string context;
    std::string ending;
  };
  Pair pair(std::int64_t index) const;
  InstructionSample make_sample(const Pair& texts, const std::string& where) const;

  Records records_;
  std::int64_t seq_length_;
  std::int64_t padded_length_ = 0;
  DatasetContext context_;
  LongSamples long_samples_;
};

}  // namespace tessera::data
