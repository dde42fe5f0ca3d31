#include <gmock/gmock.h>

#include "data/dataset/dataset_fixture.h"
#include "tessera/data/dataset/record_dataset.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;

class SquadTest : public ::testing::Test {
 protected:
  std::unique_ptr<Dataset> dataset_of(std::string_view text, const InstructionOptions& options = {}) {
    test::write_file(directory_ / "squad.jsonl", text);
    return squad_dataset(Records({directory_ / "squad.jsonl"}), options, context_);
  }
  test::TemporaryDirectory directory_;
  DatasetContext context_ = test::small_context();
  std::string record_ = R"({"context": "Oda keeps it.", "question": "Who?", "answers": {"text": [" Oda \n", "x"], "answer_start": [0, 1]}})";
};

TEST_F(SquadTest, MakesThePrompt) {
  const auto dataset = dataset_of(record_, {.answer_only_loss_mask = false});
  EXPECT_EQ(test::text_of(context_, dataset->sample(0).input_ids) + "a", "Context: Oda keeps it. Question: Who? Answer: Oda");
}

TEST_F(SquadTest, ChatTemplateHasNoSystemMessage) {
  context_.chat_template = test::chatml();
  EXPECT_EQ(test::text_of(context_, dataset_of(record_)->sample(0).input_ids),
            "<|im_start|>user\nContext: Oda keeps it. Question: Who? Answer: <|im_end|>\n<|im_start|>assistant\nOda<|im_end|>");
}

TEST_F(SquadTest, NamesWhatIsWrong) {
  const std::string message = test::error_of([&] {
    dataset_of(
        record_ +
        "\n{\"context\": \"a\", \"question\": \"b\", \"answers\": {\"text\": []}}\n{\"context\": \"a\", \"question\": \"b\", \"answers\": \"c\"}\n" +
        "{\"context\": \"a\", \"answers\": {\"text\": [\"c\"]}}\n");
  });
  EXPECT_THAT(message, HasSubstr("squad.jsonl:2: the answer is empty"));
  EXPECT_THAT(message, HasSubstr("squad.jsonl:3: column 'answers' is not"));
  EXPECT_THAT(message, HasSubstr("squad.jsonl:4: there is no column 'question'"));
}

}  // namespace
}  // namespace tessera::data
