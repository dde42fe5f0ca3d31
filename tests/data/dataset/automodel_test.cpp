// Datasets beside NeMo AutoModel's own, which made tests/data/data/datasets.json (make_dataset_golden.py).
#include <gmock/gmock.h>

#include "data/dataset/dataset_fixture.h"
#include "tessera/data/dataset/agent_messages.h"
#include "tessera/data/dataset/chat_dataset.h"
#include "tessera/data/dataset/record_dataset.h"

namespace tessera::data {
namespace {

class AutoModelTest : public ::testing::Test {
 protected:
  Records records_of(const OrderedJson& records) {
    test::write_file(directory_ / "records.json", records.dump());
    return Records({directory_ / "records.json"});
  }
  void expect_rows(const Dataset& dataset, const OrderedJson& rows) {
    ASSERT_EQ(dataset.size(), std::ssize(rows));
    for (std::int64_t index = 0; index < dataset.size(); ++index) {
      const Sample sample = dataset.sample(index);
      const OrderedJson& row = rows[static_cast<std::size_t>(index)];
      EXPECT_EQ(sample.input_ids, row["input_ids"].get<std::vector<std::int64_t>>()) << index << test::text_of(context_, sample.input_ids);
      EXPECT_EQ(sample.labels, row["labels"].get<std::vector<std::int64_t>>()) << index;
    }
  }

  test::TemporaryDirectory directory_;
  DatasetContext context_ = test::small_context();
  OrderedJson golden_ = parse_ordered_json(test::read_file(test::test_data("data/datasets.json")), "datasets.json");
};

TEST_F(AutoModelTest, HellaSwag) {
  for (const auto& [tokenizer, expected] : golden_["hellaswag"].items()) {
    context_.tokenizer = test::small_tokenizer(tokenizer);
    expect_rows(*hellaswag_dataset(records_of(expected["records"]), 0, false, context_), expected["rows"]);
  }
}

TEST_F(AutoModelTest, HellaSwagPadsToAMultipleOfEight) {
  const OrderedJson& expected = golden_["hellaswag"]["tokenizer"];
  const auto dataset = hellaswag_dataset(records_of(expected["records"]), 0, true, context_);
  std::size_t longest = 0;
  for (const OrderedJson& row : expected["rows"]) longest = std::max(longest, row["input_ids"].size());
  EXPECT_EQ(dataset->sample(0).padded_length, static_cast<std::int64_t>((longest + 7) / 8 * 8));
}

TEST_F(AutoModelTest, Xlam) {
  context_.chat_template = ChatTemplate(golden_["template"].get<std::string>(), "golden");
  expect_rows(*xlam_dataset(records_of(golden_["xlam"]["records"]), {}, context_), golden_["xlam"]["rows"]);
}

TEST_F(AutoModelTest, Chat) {
  context_.chat_template = ChatTemplate(golden_["template"].get<std::string>(), "golden");
  expect_rows(ChatDataset(records_of(golden_["chat"]["records"]), {}, {}, context_), golden_["chat"]["rows"]);
}

TEST_F(AutoModelTest, Tulu3) {
  const OrderedJson& golden = golden_["tulu3"];
  for (std::size_t record = 0; record < golden["records"].size(); ++record)
    EXPECT_EQ(tulu3_conversation(golden["records"][record], "here").messages, golden["messages"][record]);
}

TEST_F(AutoModelTest, AgentChat) {
  const OrderedJson& golden = golden_["agent_chat"];
  context_.chat_template = ChatTemplate(golden["template"].get<std::string>(), "golden");
  for (const OrderedJson& expected : golden["cases"]) {
    SCOPED_TRACE(expected["options"].dump());
    const auto flag = [&](const char* name) { return expected["options"].value(name, false); };
    const AgentOptions agent{flag("trim_incomplete_last_turn"), flag("drop_history_reasoning_content")};
    const InstructionOptions instruction{.seq_length = expected["options"].value("seq_length", 0),
                                         .truncate = flag("truncation"),
                                         .mask_history = flag("train_on_last_turn_only"),
                                         .mask_reasoning = flag("mask_reasoning_content")};
    const ChatOptions chat{.conversation = [&](const OrderedJson& r, const std::string& where) { return agent_conversation(r, agent, where); },
                           .shorten_history = flag("truncate_history")};
    expect_rows(ChatDataset(records_of(golden["records"]), instruction, chat, context_), expected["rows"]);
  }
}

}  // namespace
}  // namespace tessera::data
