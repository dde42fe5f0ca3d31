#pragma once

#include <cstdint>
#include <string>

#include "tessera/data/dataset/context.h"
#include "tessera/data/dataset/dataset.h"
#include "tessera/data/dataset/instruction.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {

/// An xLAM record (https://huggingface.co/datasets/Salesforce/xlam-function-calling-60k) as AutoModel makes a conversation of it: `query` is the
/// user's message, `answers` the calls of the assistant's, `tools` the functions with their parameters as JSON Schema. UserError naming `where` for
/// anything else.
Conversation xlam_conversation(const OrderedJson& record, const std::string& where);

/// AutoModel's make_xlam_dataset over local files. Only the calls are trained on. Every record is read and checked at construction.
class XlamDataset : public Dataset {
 public:
  /// UserError with the first mistakes found, each with file:line, and for a missing chat template.
  XlamDataset(Records records, InstructionOptions options, DatasetContext context);
  std::int64_t size() const override { return records_.size(); }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  Records records_;
  InstructionOptions options_;
  DatasetContext context_;
  LongSamples long_samples_;
};

}  // namespace tessera::data
