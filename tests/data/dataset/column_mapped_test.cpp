#include <gmock/gmock.h>

#include "data/dataset/dataset_fixture.h"
#include "tessera/data/dataset/record_dataset.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ColumnMappedTest : public ::testing::Test {
 protected:
  std::unique_ptr<Dataset> dataset_of(std::string_view text, const ColumnMappedOptions& options) {
    test::write_file(directory_ / "data.jsonl", text);
    return column_mapped_dataset(Records({directory_ / "data.jsonl"}), options, context_);
  }
  std::string error_of(std::string_view text, const ColumnMappedOptions& options) {
    return test::error_of([&] { dataset_of(text, options); });
  }
  test::TemporaryDirectory directory_;
  DatasetContext context_ = test::small_context();
  ColumnMappedOptions pairs_{.columns = {.context = std::nullopt, .question = "q", .answer = "a"}, .instruction = {}};
};

TEST_F(ColumnMappedTest, MapsColumns) {
  const auto dataset =
      dataset_of("{\"q\": \"Who?\", \"a\": \"Oda\"}\n{\"q\": \"What?\", \"a\": \"7\", \"c\": \"Numbers.\"}\n",
                 {.columns = {.context = std::nullopt, .question = "q", .answer = "a"}, .instruction = {.answer_only_loss_mask = false}});
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(test::text_of(context_, dataset->sample(0).input_ids) + "a", "Who? Oda");
  EXPECT_EQ(dataset->sample(1).number, 1);
}

TEST_F(ColumnMappedTest, ContextComesBeforeTheQuestion) {
  const auto dataset = dataset_of("{\"q\": \"What?\", \"a\": \"78\", \"c\": \"Numbers.\"}\n{\"q\": \"Which?\", \"a\": \"78\"}",
                                  {.columns = {.context = "c", .question = "q", .answer = "a"}, .instruction = {.answer_only_loss_mask = false}});
  EXPECT_EQ(test::text_of(context_, dataset->sample(0).input_ids), "Numbers. What? 7");
  EXPECT_EQ(test::text_of(context_, dataset->sample(1).input_ids), "Which? 7");
}

TEST_F(ColumnMappedTest, UsesTheChatTemplateWhenThereIsOne) {
  ColumnMappedOptions options = pairs_;
  options.use_chat_template = true;
  EXPECT_THAT(test::text_of(context_, dataset_of("{\"q\": \"Who?\", \"a\": \"Oda\"}", options)->sample(0).input_ids), Not(HasSubstr("im_start")));
  context_.chat_template = test::chatml();
  const auto dataset = dataset_of("{\"q\": \"Who?\", \"a\": \"Oda\"}", options);
  EXPECT_EQ(test::text_of(context_, dataset->sample(0).input_ids),
            "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\nOda<|im_end|>");
  EXPECT_EQ(test::learnt_text(context_, dataset->sample(0)), "<|im_start|>assistant\nOda<|im_end|>\n");
}

TEST_F(ColumnMappedTest, EmptyDataset) { EXPECT_THAT(error_of("\n", pairs_), HasSubstr("data.jsonl: the dataset is empty")); }

TEST_F(ColumnMappedTest, MissingColumn) {
  const std::string message = error_of("{\"question\": \"Who?\", \"a\": \"Oda\"}\n", pairs_);
  EXPECT_THAT(message, HasSubstr("data.jsonl:1: there is no column 'q'"));
  EXPECT_THAT(message, HasSubstr("the columns here are question, a"));
  EXPECT_THAT(error_of("{\"q\": \"Who?\", \"a\": \"Oda\"}\n{\"q\": \"Who?\"}\n", pairs_), HasSubstr("data.jsonl:2: there is no column 'a'"));
}

TEST_F(ColumnMappedTest, ReportsEveryBrokenRecord) {
  const std::string message = error_of(
      "{\"q\": \"Who?\", \"a\": \"Oda\"}\nnot json\n{\"q\": \"Who?\", \"a\": \" \"}\n{\"q\": null, \"a\": \"b\"}\n{\"q\": 3, \"a\": \"b\"}\n",
      pairs_);
  EXPECT_THAT(message, HasSubstr("data.jsonl:2: not valid JSON"));
  EXPECT_THAT(message, HasSubstr("data.jsonl:3: the answer (column 'a') is empty"));
  EXPECT_THAT(message, HasSubstr("data.jsonl:4: the prompt is empty"));
  EXPECT_THAT(message, HasSubstr("data.jsonl:5: column 'q' holds a JSON number"));
}

TEST_F(ColumnMappedTest, FindsLongSamplesBeforeTrainingStarts) {
  const std::string answer(400, 'x');
  const std::string text = "{\"q\": \"Who?\", \"a\": \"Oda\"}\n{\"q\": \"Who?\", \"a\": \"" + answer + "\"}\n";
  context_.context_length = 100;
  EXPECT_THAT(error_of(text, pairs_), HasSubstr("data.jsonl:2: the sample takes"));
  ColumnMappedOptions cut = pairs_;
  cut.instruction.truncate = true;
  EXPECT_EQ(dataset_of(text, cut)->sample(1).input_ids.size(), 99U);
}

TEST_F(ColumnMappedTest, QuickstartFactsAreGoodSamples) {
  for (const char* name : {"examples/quickstart/facts.jsonl", "examples/quickstart/facts_validation.jsonl"}) {
    const auto dataset = column_mapped_dataset(Records({test::source_directory() / name}),
                                               {.columns = {std::nullopt, "question", "answer"}, .instruction = {}}, context_);
    EXPECT_GE(dataset->size(), 20);
  }
}

TEST_F(ColumnMappedTest, ReadsRealData) {
  const auto lines = test::shared_data("data/sft/gsm8k_train.jsonl");
  const auto array = test::shared_data("data/sft/lf_alpaca_en_demo.json");
  TESSERA_SKIP_WITHOUT(lines);
  TESSERA_SKIP_WITHOUT(array);
  const auto questions = column_mapped_dataset(Records({lines}), {.columns = {std::nullopt, "question", "answer"}, .instruction = {}}, context_);
  EXPECT_EQ(questions->size(), 7473);
  const auto instructions = column_mapped_dataset(Records({array}), {.columns = {"input", "instruction", "output"}, .instruction = {}}, context_);
  EXPECT_EQ(instructions->size(), 999);
}

}  // namespace
}  // namespace tessera::data
