#pragma once

#include <cstdint>
#include <string>

#include "tessera/data/dataset/chat_messages.h"
#include "tessera/data/dataset/context.h"
#include "tessera/data/dataset/dataset.h"
#include "tessera/data/dataset/instruction.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {

/// AutoModel's ChatDataset over local files: conversations (chat_messages.h) through the chat template; what the assistant says is learnt. Every
/// record is read and rendered at construction, so that a conversation the template refuses is found before training; tokens are made when a sample
/// is asked for.
class ChatDataset : public Dataset {
 public:
  /// UserError with the first mistakes found, each with file:line, and for a missing template. With `skip_invalid` such records are left out instead,
  /// and counted; UserError then only when none is left.
  ChatDataset(Records records, InstructionOptions options, bool skip_invalid, DatasetContext context);
  std::int64_t size() const override { return records_.size(); }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  void check(std::int64_t index) const;
  void leave_out_invalid();

  Records records_;
  InstructionOptions options_;
  DatasetContext context_;
  std::int64_t num_invalid_ = 0;
  std::string first_invalid_;  ///< why
};

}  // namespace tessera::data
