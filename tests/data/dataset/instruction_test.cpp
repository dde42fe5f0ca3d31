#include "tessera/data/dataset/instruction.h"

#include <gmock/gmock.h>

#include "data/dataset/dataset_fixture.h"
#include "tessera/core/error.h"
#include "tessera/data/collate.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;

InstructionOptions options_of(const Json& options) {
  return {.seq_length = options.value("seq_length", std::int64_t{0}),
          .truncate = options.value("truncation", false),
          .pad_to_seq_length = options.value("padding", "") == "max_length",
          .answer_only_loss_mask = options.value("answer_only_loss_mask", true)};
}

std::optional<std::string> part(const Json& pair, const char* name) {
  return pair[name].is_null() ? std::nullopt : std::optional(pair[name].get<std::string>());
}

OrderedJson messages_of(const std::string& system, const std::string& user, const std::string& assistant) {
  return OrderedJson::array({OrderedJson{{"role", "system"}, {"content", system}}, OrderedJson{{"role", "user"}, {"content", user}},
                             OrderedJson{{"role", "assistant"}, {"content", assistant}}});
}

Sample sample_of(const Json& golden, const DatasetContext& context) {
  const auto system = part(golden["pair"], "context");
  const auto question = part(golden["pair"], "question");
  const std::string answer = golden["pair"]["answer"];
  const InstructionOptions options = options_of(golden["options"]);
  if (golden["chat"]) return conversation_sample({messages_of(system.value_or(""), *question, answer)}, options, context, "golden");
  const std::string prompt = (system ? *system + " " : "") + *question + " ";
  return prompt_completion_sample(prompt, answer, options, context, "golden");
}

/// NeMo AutoModel's own functions computed these (tests/data/data/make_data_golden.py).
TEST(Instruction, SamplesAreThoseOfAutoModel) {
  const Json goldens = read_json_file(test::test_data("data/instruction.json"));
  ASSERT_GE(goldens.size(), 40U);
  for (const Json& golden : goldens) {
    DatasetContext context{.tokenizer = test::small_tokenizer(golden["tokenizer"])};
    context.chat_template = test::chatml();
    const Sample sample = sample_of(golden, context);
    const Batch batch = collate(std::span(&sample, 1), {.pad_id = *context.tokenizer->special_tokens().pad});
    const auto input_ids = golden["input_ids"].get<std::vector<std::int64_t>>();
    const auto real = static_cast<std::ptrdiff_t>(sample.input_ids.size());
    EXPECT_EQ(batch.labels, golden["labels"].get<std::vector<std::int64_t>>()) << golden.dump();
    // AutoModel leaves the last token in front of its own padding, where no label is learnt any more.
    ASSERT_EQ(batch.input_ids.size(), input_ids.size()) << golden.dump();
    EXPECT_TRUE(std::equal(input_ids.begin(), input_ids.begin() + real, batch.input_ids.begin())) << golden.dump();
  }
}

/// NeMo AutoModel's own function computed these (tests/data/data/make_chat_golden.py): turns, generation blocks, tools, reasoning, truncation.
TEST(Instruction, ConversationsAreThoseOfAutoModel) {
  const std::filesystem::path path = test::test_data("data/chat.json");
  const OrderedJson goldens = parse_ordered_json(test::read_file(path), path.string());
  ASSERT_GE(goldens.size(), 50U);
  DatasetContext context = test::small_context();
  for (const OrderedJson& golden : goldens) {
    const OrderedJson& options = golden["options"];
    context.chat_template = ChatTemplate(golden["template"].get<std::string>(), "golden");
    const Sample sample = conversation_sample({golden["messages"], golden["tools"]},
                                              {.seq_length = options.value("seq_length", std::int64_t{0}),
                                               .truncate = options.value("truncation", false),
                                               .mask_history = options.value("train_on_last_turn_only", false),
                                               .mask_reasoning = options.value("mask_reasoning_content", false)},
                                              context, "golden");
    EXPECT_EQ(sample.input_ids, golden["input_ids"].get<std::vector<std::int64_t>>()) << golden["name"] << options;
    EXPECT_EQ(sample.labels, golden["labels"].get<std::vector<std::int64_t>>()) << golden["name"] << options;
  }
}

TEST(Instruction, OnlyTheAnswerIsLearnt) {
  const DatasetContext context = test::small_context();
  const Sample sample = prompt_completion_sample("What is it?\n", "A lighthouse.", {}, context, "here");
  EXPECT_EQ(test::learnt_text(context, sample), "A lighthouse.");
}

TEST(Instruction, EveryAssistantTurnIsLearnt) {
  DatasetContext context = test::small_context();
  context.chat_template = test::chatml();
  OrderedJson messages = messages_of("S", "Q", "A");
  for (const OrderedJson& message : messages_of("", "R", "B")) {
    if (message["role"] != "system") messages.push_back(message);
  }
  const Sample sample = conversation_sample({messages}, {}, context, "here");
  EXPECT_EQ(test::learnt_text(context, sample), "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n");
}

TEST(Instruction, SystemTextMovesWhereTheTemplateHasNoSystemRole) {
  DatasetContext context = test::small_context();
  context.chat_template = test::chatml("{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}");
  const Sample sample = conversation_sample({messages_of("S", "Q", "A")}, {.answer_only_loss_mask = false}, context, "here");
  EXPECT_THAT(test::text_of(context, sample.input_ids), HasSubstr("<|im_start|>user\nS\nQ<|im_end|>"));
}

TEST(Instruction, RefusesTemplatesThatRewriteEarlierTurns) {
  DatasetContext context = test::small_context();
  context.chat_template = test::chatml("{{ messages | length }}");
  EXPECT_THAT(test::error_of([&] { conversation_sample({messages_of("S", "Q", "A")}, {}, context, "data.jsonl:3"); }),
              HasSubstr("data.jsonl:3: the chat template writes the first 2 message(s) differently"));
  EXPECT_THAT(test::error_of([&] { conversation_sample({OrderedJson::array({OrderedJson{{"role", "user"}, {"content", "Q"}}})}, {}, context, "x"); }),
              HasSubstr("no assistant's turn"));
}

TEST(Instruction, RefusesWhatTheModelCannotTake) {
  DatasetContext context = test::small_context();
  context.context_length = 8;
  EXPECT_THAT(test::error_of([&] { prompt_completion_sample("a b c d e f", "g h i j", {}, context, "data.jsonl:3"); }),
              HasSubstr("data.jsonl:3: the sample takes"));
  EXPECT_EQ(prompt_completion_sample("a b c d e f", "g h i j", {.truncate = true}, context, "").input_ids.size(), 7U);
  EXPECT_EQ(prompt_completion_sample("a b c d e f", "g h i j", {.seq_length = 5, .truncate = true}, context, "").input_ids.size(), 4U);
  context.vocab_size = 50;
  EXPECT_THAT(test::error_of([&] { prompt_completion_sample("the", "question", {}, context, "data.jsonl:3"); }),
              HasSubstr("is outside the model's vocabulary of 50"));
  EXPECT_THAT(test::error_of([&] { prompt_completion_sample("", "a", {}, context, "data.jsonl:3"); }), HasSubstr("makes 1 token(s)"));
}

}  // namespace
}  // namespace tessera::data
