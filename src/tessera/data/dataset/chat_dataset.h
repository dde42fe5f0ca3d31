#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/data/dataset/chat_messages.h"
#include "tessera/data/dataset/context.h"
#include "tessera/data/dataset/dataset.h"
#include "tessera/data/dataset/instruction.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {

/// How records become conversations, and which are left out.
struct ChatOptions {
  /// The conversation in a record; UserError naming `where` for one that does not fit.
  std::function<Conversation(const OrderedJson& record, const std::string& where)> conversation = conversation_of;
  bool skip_invalid = false;            ///< leave out what does not fit
  bool skip_without_assistant = false;  ///< leave out conversations in which the assistant says nothing
  bool shorten_history = false;         ///< leave out the oldest exchanges until seq_length tokens hold the rest
  bool skip_too_long = false;           ///< leave out conversations of more than seq_length tokens
};

/// AutoModel's ChatDataset, and what resembles it, over local files: conversations through the chat template, trained on what the assistant says.
/// Every record is read and rendered at construction, so that a conversation the template refuses is found before training; tokens are made when a
/// sample is asked for.
class ChatDataset final : public Dataset {
 public:
  /// UserError with the first mistakes found, each with file:line, and for a missing template. What `chat` leaves out is counted; UserError when
  /// nothing is left.
  ChatDataset(Records records, InstructionOptions options, ChatOptions chat, DatasetContext context);
  std::int64_t size() const override { return records_.size(); }
  Sample sample(std::int64_t index) const override;
  std::string description() const override;

 private:
  enum class Verdict : std::uint8_t { Good, Invalid, NoAssistant, TooLong };
  Conversation conversation(std::int64_t index, const std::string& where) const;
  Verdict check(std::int64_t index);
  Verdict check(std::int64_t index, std::string& reason);
  void leave_out();
  std::string left_out() const;  ///< and why, as the end of a sentence

  Records records_;
  InstructionOptions options_;
  ChatOptions chat_;
  DatasetContext context_;
  LongSamples long_samples_;
  std::int64_t num_invalid_ = 0;
  std::int64_t num_without_assistant_ = 0;
  std::int64_t num_too_long_ = 0;
  std::string first_invalid_;  ///< why
};

}  // namespace tessera::data
