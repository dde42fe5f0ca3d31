#include "tessera/data/dataset/build.h"

#include <gmock/gmock.h>

#include "data/dataset/dataset_fixture.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;

class BuildTest : public ::testing::Test {
 protected:
  std::unique_ptr<Dataset> build(const config::Dataset& options) { return build_dataset(options, context_, "dataset"); }
  std::string error_of(const config::Dataset& options) {
    return test::error_of([&] { build(options); });
  }
  std::string file(const std::string& name, std::string_view content) {
    test::write_file(directory_ / name, content);
    return (directory_ / name).string();
  }
  test::TemporaryDirectory directory_;
  DatasetContext context_ = test::small_context();
};

TEST_F(BuildTest, ColumnMapped) {
  config::Dataset options;
  options.paths = {file("a.jsonl", "{\"q\": \"Who?\", \"a\": \"Oda\"}\n{\"q\": \"Who?\", \"a\": \"Oda\"}\n{\"q\": \"Who?\", \"a\": \"Oda\"}\n")};
  EXPECT_THAT(error_of(options), HasSubstr("dataset: column_mapping does not name an answer"));
  options.column_mapping = {{"question", "q"}, {"answer", "a"}};
  EXPECT_EQ(build(options)->size(), 3);
  options.split = "train[1:]";
  EXPECT_EQ(build(options)->size(), 2);
  options.limit_dataset_samples = 1;
  EXPECT_EQ(build(options)->size(), 1);
  options.padding = config::Padding::MaxLength;
  EXPECT_THAT(error_of(options), HasSubstr("dataset: padding: max_length needs seq_length"));
  options.seq_length = 64;
  EXPECT_EQ(build(options)->sample(0).padded_length, 64);
  context_.context_length = 32;
  const std::string too_long = "dataset: seq_length: 64 is longer than the model's context of 32";
  EXPECT_THAT(error_of(options), HasSubstr(too_long));
  options.kind = config::DatasetKind::Text;
  options.padding = config::Padding::None;
  EXPECT_THAT(error_of(options), HasSubstr(too_long)) << "windows of text fill rows, too";
}

TEST_F(BuildTest, HubNamesAreLookedForInTheCache) {
  config::Dataset options;
  options.kind = config::DatasetKind::Squad;
  options.paths = {"rajpurkar/squad"};
  options.split = "validation";
  context_.environment = [this](std::string_view name) -> std::optional<std::string> {
    if (name == "HF_HOME") return directory_.path().string();
    return name == "HF_HUB_OFFLINE" ? std::optional<std::string>("1") : std::nullopt;
  };
  EXPECT_THAT(error_of(options), HasSubstr("dataset: 'rajpurkar/squad' is a Hub name and not on disk, and HF_HUB_OFFLINE is set"));
  const std::filesystem::path repository = directory_ / "hub/datasets--rajpurkar--squad";
  std::filesystem::create_directories(repository / "snapshots/abc/plain_text");
  std::filesystem::create_directories(repository / "refs");
  test::write_file(repository / "refs/main", "abc");
  test::write_file(repository / "snapshots/abc/plain_text/train-0.jsonl", "");
  test::write_file(repository / "snapshots/abc/plain_text/validation-0.jsonl", R"({"context": "a", "question": "b", "answers": {"text": ["c"]}})");
  EXPECT_EQ(build(options)->size(), 1);
}

TEST_F(BuildTest, Text) {
  config::Dataset options;
  options.kind = config::DatasetKind::Text;
  options.paths = {file("a.txt", "The keeper of the lighthouse")};
  options.seq_length = 4;
  EXPECT_GT(build(options)->size(), 1);
}

TEST_F(BuildTest, Mock) {
  config::Dataset options;
  options.kind = config::DatasetKind::MockIterable;
  options.num_samples = 10;
  options.batch_size = 4;
  options.seq_length = 12;
  options.vocab_size = 100;
  EXPECT_EQ(build(options)->size(), 40);
  EXPECT_EQ(build(options)->sample(39).input_ids.size(), 12U);
  context_.vocab_size = 64;
  EXPECT_THAT(error_of(options), HasSubstr("dataset: vocab_size: 100 does not fit the model's vocabulary of 64"));
  options.kind = config::DatasetKind::MockUnpacked;
  options.vocab_size = 50;
  EXPECT_EQ(build(options)->size(), 10);
  context_.context_length = 11;
  options.max_sentence_len = 11;
  EXPECT_THAT(error_of(options), HasSubstr("dataset: max_sentence_len: 11 makes samples of 12 positions, the model has 11"));
  options.kind = config::DatasetKind::MockIterable;
  EXPECT_THAT(error_of(options), HasSubstr("dataset: seq_len: 12 makes samples of 12 positions, the model has 11"));
}

TEST_F(BuildTest, OnlyMockDataDoesWithoutTokenizer) {
  context_.tokenizer.reset();
  config::Dataset options;
  options.kind = config::DatasetKind::Text;
  EXPECT_THAT(error_of(options), HasSubstr("dataset: there is no tokenizer to read text with"));
  options.kind = config::DatasetKind::MockIterable;
  EXPECT_NO_THROW(build(options));
}

TEST_F(BuildTest, Conversations) {
  config::Dataset options;
  options.kind = config::DatasetKind::Chat;
  options.paths = {
      file("chat.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n{}\n")};
  context_.chat_template = test::chatml();
  EXPECT_THAT(error_of(options), HasSubstr("chat.jsonl:2: there is no list `messages`"));
  options.skip_invalid_samples = true;
  EXPECT_EQ(build(options)->size(), 1);
}

TEST_F(BuildTest, ShufflingComesBeforeTheSlice) {
  std::string lines;
  for (int i = 0; i < 50; ++i) lines += "{\"q\": \"" + std::to_string(i) + "\", \"a\": \"x\"}\n";
  config::Dataset options;
  options.paths = {file("a.jsonl", lines)};
  options.column_mapping = {{"question", "q"}, {"answer", "a"}};
  options.shuffle_seed = 3;
  const auto whole = build(options);
  options.split = "train[10:20]";
  const auto slice = build(options);
  ASSERT_EQ(slice->size(), 10);
  EXPECT_EQ(slice->sample(0).input_ids, whole->sample(10).input_ids);
}

TEST_F(BuildTest, Megatron) {
  config::Dataset options;
  options.kind = config::DatasetKind::MegatronPretraining;
  options.split = "50,50,0";
  options.seq_length = 16;
  options.paths = {test::test_data("data/megatron/a")};
  context_.tokenizer.reset();
  const auto training = build(options);
  context_.validation = true;
  EXPECT_NE(build(options)->sample(0).input_ids, training->sample(0).input_ids);
  options.splits_to_build = {"train"};
  EXPECT_EQ(build(options)->sample(0).input_ids, training->sample(0).input_ids);
  options.splits_to_build = {"trian"};
  EXPECT_THAT(error_of(options), HasSubstr("dataset: 'trian' is not a split"));
  options.splits_to_build = {};
  options.paths = {file("blend.json", "{\"valid\": [\"" + test::test_data("data/megatron/b").string() + "\"]}")};
  EXPECT_GE(build(options)->sample(0).input_ids[0], 100000);
  context_.validation = false;
  EXPECT_THAT(error_of(options), HasSubstr("paths name no files for this split"));
}

TEST_F(BuildTest, MockPacked) {
  config::Dataset options;
  options.kind = config::DatasetKind::MockPacked;
  options.num_samples = 3;
  options.block_size = 50;
  options.vocab_size = 100;
  const auto blocks = build(options);
  ASSERT_EQ(blocks->size(), 3);
  EXPECT_EQ(blocks->sample(2).input_ids.size(), 50U);
  EXPECT_GT(blocks->sample(2).document_starts.size(), 1U);
  EXPECT_NE(blocks->sample(2).input_ids, blocks->sample(1).input_ids);
}

}  // namespace
}  // namespace tessera::data
