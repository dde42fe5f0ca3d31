#include "tessera/data/dataset/chat_dataset.h"

#include <gmock/gmock.h>

#include "data/dataset/dataset_fixture.h"
#include "tessera/data/dataset/agent_messages.h"
#include "tessera/data/dataset/record_dataset.h"

namespace tessera::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ConversationDatasetTest : public ::testing::Test {
 protected:
  Records records_of(std::string_view text) {
    test::write_file(directory_ / "data.jsonl", text);
    return Records({directory_ / "data.jsonl"});
  }
  std::string chat_error(std::string_view text, bool skip_invalid = false) {
    return test::error_of([&] { ChatDataset(records_of(text), {}, {.skip_invalid = skip_invalid}, context_); });
  }

  test::TemporaryDirectory directory_;
  DatasetContext context_ = [] {
    DatasetContext context = test::small_context();
    context.chat_template = test::chatml("{% if messages[0].role == 'assistant' %}{{ raise_exception('a user speaks first') }}{% endif %}");
    return context;
  }();
};

constexpr const char* kGood = R"({"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Oda"}]})";

TEST_F(ConversationDatasetTest, NamesWhatIsWrongInAConversation) {
  const std::string bad = std::string(kGood) + "\n" +
                          "{\"messages\": [{\"role\": \"robot\", \"content\": \"x\"}]}\n"
                          "{\"text\": \"x\"}\n"
                          "{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}]}\n"
                          "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n"
                          "{\"conversations\": [{\"from\": \"observation\", \"value\": \"x\"}]}\n"
                          "{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"function\": {\"name\": \"f\"}}]}]}\n"
                          "{\"messages\": [], \"tools\": \"[\"}\n"
                          "{\"messages\"\n";
  const std::string error = chat_error(bad);
  EXPECT_THAT(error, HasSubstr("data.jsonl:2: a message has the role \"robot\""));
  EXPECT_THAT(error, HasSubstr("data.jsonl:3: there is no list `messages`"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:4: chat template: a user speaks first (chatml:1)"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:5: the conversation has no assistant's turn"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:6: a turn is from \"observation\""));
  EXPECT_THAT(error, HasSubstr("data.jsonl:7: tool_calls[0] has no arguments"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:8: `tools` is text, but not JSON"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:9"));

  const ChatDataset skipping(records_of(bad), {}, {.skip_invalid = true}, context_);
  EXPECT_EQ(skipping.size(), 1);
  EXPECT_EQ(test::learnt_text(context_, skipping.sample(0)), "<|im_start|>assistant\nOda<|im_end|>\n");
  EXPECT_THAT(skipping.description(), AllOf(HasSubstr("8 invalid sample(s) skipped"), HasSubstr("data.jsonl:2: a message has the role")));
  EXPECT_THAT(chat_error("{\"messages\": []}\n", true), HasSubstr("the dataset is empty; 1 invalid sample(s) skipped"));
}

TEST_F(ConversationDatasetTest, AgentsConversationsThatDoNotFit) {
  const auto read = [](const OrderedJson& record, const std::string& where) { return agent_conversation(record, {}, where); };
  const std::string error = test::error_of([&] {
    ChatDataset(records_of("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"robot\"}]}\n"
                           "{\"conversations\": [{\"from\": \"chatgpt\", \"value\": \"x\"}]}\n"
                           "{\"messages\": [{\"role\": \"tool_call\", \"content\": \"{\"}]}\n"
                           "{\"messages\": [{\"role\": \"tool_call\", \"content\": {\"arguments\": {}}}]}\n"
                           "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"a\"}]}]}\n"
                           "{\"messages\": \"x\"}\n"
                           "{\"conversations\": [3]}\n"
                           "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": 3}]}\n"),
                {}, {.conversation = read}, context_);
  });
  EXPECT_THAT(error, HasSubstr("data.jsonl:1: a message has the role \"robot\""));
  EXPECT_THAT(error, HasSubstr("data.jsonl:2: a turn is from \"chatgpt\""));
  EXPECT_THAT(error, HasSubstr("data.jsonl:3: a call of a tool is not a JSON object"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:4: a call of a tool has no name"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:5: a call of a tool has no function"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:6: there is no list `messages` or `conversations`"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:7: a message is not an object"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:8: tool_calls is not a list"));
}

/// The longest of three good conversations and one without an answer are left out, and counted.
TEST_F(ConversationDatasetTest, AgentsConversationsAreLeftOutByCount) {
  const auto read = [](const OrderedJson& record, const std::string& where) { return agent_conversation(record, {}, where); };
  const auto conversation = [](const std::string& question) {
    return R"({"messages": [{"role": "user", "content": ")" + question + R"("}, {"role": "assistant", "content": "Oda"}]})" + "\n";
  };
  const std::string records = conversation("Who?") + "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n" +
                              conversation("Who keeps the lighthouse on the northern cliff, and since when?");
  const ChatDataset all(records_of(records), {}, {.conversation = read, .skip_without_assistant = true}, context_);
  ASSERT_EQ(all.size(), 2);
  EXPECT_THAT(all.description(), HasSubstr("; 1 without an assistant's turn left out"));
  // A sample is one token shorter than its conversation: the last is only a target.
  const std::int64_t longest = std::ssize(all.sample(1).input_ids) + 1;
  for (const std::int64_t seq_length : {longest, longest - 1}) {
    const ChatOptions chat{.conversation = read, .skip_without_assistant = true, .skip_too_long = true};
    const ChatDataset short_ones(records_of(records), {.seq_length = seq_length}, chat, context_);
    EXPECT_EQ(short_ones.size(), seq_length == longest ? 2 : 1);
    const std::string count = "1 longer than " + std::to_string(seq_length) + " tokens left out";
    EXPECT_EQ(short_ones.description().find(count) == std::string::npos, seq_length == longest);
  }
}

/// One of two samples is longer than the other, and cut to the other's length.
TEST_F(ConversationDatasetTest, CutSamplesAreCounted) {
  const auto cut_to = [](std::int64_t tokens) { return InstructionOptions{.seq_length = tokens, .truncate = true}; };
  const auto expect_one = [](const Dataset& dataset, std::int64_t tokens) {
    EXPECT_THAT(dataset.description(), HasSubstr("; 1 of them cut to " + std::to_string(tokens) + " tokens"));
  };
  const std::string chats = std::string(kGood) + "\n" + std::string(kGood).replace(std::string(kGood).find("Oda"), 3, "Oda Brennick") + "\n";
  const ChatDataset whole(records_of(chats), {}, {}, context_);
  EXPECT_EQ(whole.description().find("cut"), std::string::npos);
  const std::int64_t shorter = std::ssize(whole.sample(0).input_ids) + 1;
  expect_one(ChatDataset(records_of(chats), cut_to(shorter), {}, context_), shorter);

  const std::string pairs =
      "{\"question\": \"Who?\", \"answers\": {\"text\": [\"Oda\"]}, \"context\": \"\"}\n"
      "{\"question\": \"Who?\", \"answers\": {\"text\": [\"Oda Brennick\"]}, \"context\": \"\"}\n";
  const Seq2SeqColumns columns{"", "question", "answers"};
  const std::int64_t pair = std::ssize(seq2seq_dataset(records_of(pairs), columns, {}, context_)->sample(0).input_ids) + 1;
  expect_one(*seq2seq_dataset(records_of(pairs), columns, cut_to(pair), context_), pair);
  const std::int64_t question = std::ssize(squad_dataset(records_of(pairs), {}, context_)->sample(0).input_ids) + 1;
  expect_one(*squad_dataset(records_of(pairs), cut_to(question), context_), question);
  const ColumnMappedOptions mapped{{std::nullopt, "q", "a"}, {}, false};
  const std::string columns_of = "{\"q\": \"Who?\", \"a\": \"Oda\"}\n{\"q\": \"Who?\", \"a\": \"Oda Brennick\"}\n";
  const std::int64_t column = std::ssize(column_mapped_dataset(records_of(columns_of), mapped, context_)->sample(0).input_ids) + 1;
  expect_one(*column_mapped_dataset(records_of(columns_of), {mapped.columns, cut_to(column), false}, context_), column);

  const std::string endings =
      "{\"ctx\": \"x\", \"endings\": [\" Oda\"], \"label\": 0}\n{\"ctx\": \"x\", \"endings\": [\" Oda Brennick\"], \"label\": 0}\n";
  const std::int64_t ending = std::ssize(hellaswag_dataset(records_of(endings), 0, false, context_)->sample(0).input_ids);
  expect_one(*hellaswag_dataset(records_of(endings), ending, false, context_), ending);
}

TEST_F(ConversationDatasetTest, NeedsATemplate) {
  context_.chat_template.reset();
  EXPECT_THAT(chat_error(kGood), HasSubstr("there is no chat template"));
  EXPECT_THAT(test::error_of([&] { xlam_dataset(records_of("{\"query\": \"x\"}"), {}, context_); }), HasSubstr("there is no chat template"));
}

TEST_F(ConversationDatasetTest, XlamNamesWhatIsWrong) {
  const std::string error = test::error_of([&] {
    xlam_dataset(
        records_of(
            "{\"query\": \"x\", \"tools\": \"[]\", \"answers\": \"[]\"}\n{\"query\": \"x\", \"tools\": 3, \"answers\": []}\n{\"query\": \"x\"}\n"),
        {}, context_);
  });
  EXPECT_THAT(error, HasSubstr("data.jsonl:1: the answer calls nothing"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:2: column 'tools' is not a list"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:3: there is no column 'tools'"));
}

TEST_F(ConversationDatasetTest, HellaSwagNamesWhatIsWrong) {
  const std::string error = test::error_of([&] {
    hellaswag_dataset(
        records_of("{\"ctx\": \"x\", \"endings\": [\"a\"], \"label\": \"\"}\n{\"ctx\": \"x\", \"endings\": [\"a\"], \"label\": 1}\n{\"ctx\": \"\", "
                   "\"endings\": [\"a\"], \"label\": 0}\n"),
        0, false, context_);
  });
  EXPECT_THAT(error, HasSubstr("data.jsonl:1: the label is \"\", not a number"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:2: there is no text number 1 in 'endings'"));
  EXPECT_THAT(error, HasSubstr("data.jsonl:3: the context or the ending is empty"));
}

TEST_F(ConversationDatasetTest, Seq2SeqFillsTheTemplate) {
  const Seq2SeqColumns squad{"question: {question}  context: {context} {{}}", "question", "answers"};
  const std::string record = R"({"question": "Who?", "context": "Oda keeps it.", "answers": {"text": ["Oda"]}})";
  const auto dataset = seq2seq_dataset(records_of(record), squad, {.answer_only_loss_mask = false}, context_);
  EXPECT_EQ(test::text_of(context_, dataset->sample(0).input_ids) + "a", "question: Who?  context: Oda keeps it. {} Oda");
  const auto plain =
      seq2seq_dataset(records_of(R"({"source": "a", "target": 5})"), {"", "source", "target"}, {.answer_only_loss_mask = false}, context_);
  EXPECT_EQ(plain->sample(0).labels.back(), *context_.tokenizer->id("5"));
  EXPECT_THAT(test::error_of([&] { seq2seq_dataset(records_of(record), {"{nothing}", "", "answers"}, {}, context_); }),
              HasSubstr("data.jsonl:1: there is no column 'nothing'"));
  EXPECT_THAT(test::error_of([&] { seq2seq_dataset(records_of(record), {"{question", "", "answers"}, {}, context_); }),
              HasSubstr("a brace without its partner"));
  EXPECT_THAT(test::error_of(
                  [&] { seq2seq_dataset(records_of(R"({"question": "x", "answers": {"text": []}})"), {"", "question", "answers"}, {}, context_); }),
              HasSubstr("data.jsonl:1: the target (column 'answers') is empty"));
}

}  // namespace
}  // namespace tessera::data
