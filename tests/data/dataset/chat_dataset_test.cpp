#include "tessera/data/dataset/chat_dataset.h"

#include <gmock/gmock.h>

#include "data/dataset/dataset_fixture.h"
#include "tessera/data/dataset/hellaswag.h"
#include "tessera/data/dataset/seq2seq.h"
#include "tessera/data/dataset/xlam.h"

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
    return test::error_of([&] { ChatDataset(records_of(text), {}, skip_invalid, context_); });
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

  const ChatDataset skipping(records_of(bad), {}, true, context_);
  EXPECT_EQ(skipping.size(), 1);
  EXPECT_EQ(test::learnt_text(context_, skipping.sample(0)), "<|im_start|>assistant\nOda<|im_end|>\n");
  EXPECT_THAT(skipping.description(), AllOf(HasSubstr("8 invalid sample(s) skipped"), HasSubstr("data.jsonl:2: a message has the role")));
  EXPECT_THAT(chat_error("{\"messages\": []}\n", true), HasSubstr("all 1 samples were skipped"));
}

TEST_F(ConversationDatasetTest, NeedsATemplate) {
  context_.chat_template.reset();
  EXPECT_THAT(chat_error(kGood), HasSubstr("there is no chat template"));
  EXPECT_THAT(test::error_of([&] { XlamDataset(records_of("{\"query\": \"x\"}"), {}, context_); }), HasSubstr("there is no chat template"));
}

TEST_F(ConversationDatasetTest, XlamNamesWhatIsWrong) {
  const std::string error = test::error_of([&] {
    XlamDataset(
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
    HellaSwagDataset(
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
  const Seq2SeqDataset dataset(records_of(record), squad, {.answer_only_loss_mask = false}, context_);
  EXPECT_EQ(test::text_of(context_, dataset.sample(0).input_ids) + "a", "question: Who?  context: Oda keeps it. {} Oda");
  const Seq2SeqDataset plain(records_of(R"({"source": "a", "target": 5})"), {"", "source", "target"}, {.answer_only_loss_mask = false}, context_);
  EXPECT_EQ(plain.sample(0).labels.back(), *context_.tokenizer->id("5"));
  EXPECT_THAT(test::error_of([&] { Seq2SeqDataset(records_of(record), {"{nothing}", "", "answers"}, {}, context_); }),
              HasSubstr("data.jsonl:1: there is no column 'nothing'"));
  EXPECT_THAT(test::error_of([&] { Seq2SeqDataset(records_of(record), {"{question", "", "answers"}, {}, context_); }),
              HasSubstr("a brace without its partner"));
  EXPECT_THAT(
      test::error_of([&] { Seq2SeqDataset(records_of(R"({"question": "x", "answers": {"text": []}})"), {"", "question", "answers"}, {}, context_); }),
      HasSubstr("data.jsonl:1: the target (column 'answers') is empty"));
}

}  // namespace
}  // namespace tessera::data
