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
  EXPECT_THAT(error_of(options), HasSubstr("dataset: seq_length: 64 is longer than the model's context of 32"));
}

TEST_F(BuildTest, HubNamesAreRefused) {
  config::Dataset options;
  options.kind = config::DatasetKind::Squad;
  options.paths = {"rajpurkar/squad"};
  EXPECT_THAT(error_of(options), HasSubstr("dataset: 'rajpurkar/squad' is a Hub name and not on disk"));
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

TEST_F(BuildTest, OtherKindsAreNotSupportedYet) {
  config::Dataset options;
  options.kind = config::DatasetKind::HellaSwag;
  EXPECT_THAT(error_of(options), HasSubstr("not supported yet"));
}

}  // namespace
}  // namespace tessera::data
