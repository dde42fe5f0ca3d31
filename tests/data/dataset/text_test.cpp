#include "tessera/data/dataset/text.h"

#include <gmock/gmock.h>

#include "data/dataset/dataset_fixture.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;

class TextTest : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, std::string_view content) {
    test::write_file(directory_ / name, content);
    return directory_ / name;
  }
  test::TemporaryDirectory directory_;
  DatasetContext context_ = test::small_context();
};

/// All inputs of all windows, and the last label: the whole stream.
std::vector<std::int64_t> stream_of(const TextDataset& dataset) {
  std::vector<std::int64_t> stream;
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    const Sample sample = dataset.sample(index);
    EXPECT_EQ(sample.input_ids.size(), sample.labels.size());
    if (!stream.empty()) {
      EXPECT_EQ(dataset.sample(index - 1).labels.back(), sample.input_ids.front());
    }
    stream.insert(stream.end(), sample.input_ids.begin(), sample.input_ids.end());
  }
  stream.push_back(dataset.sample(dataset.size() - 1).labels.back());
  return stream;
}

TEST_F(TextTest, EveryTokenIsLearntOnce) {
  const std::string text = "Who keeps the lighthouse? The keeper of the lighthouse is Oda Brennick.";
  for (const std::int64_t seq_length : {1, 3, 7, 1000}) {
    const TextDataset dataset({file("a.txt", text)}, {.seq_length = seq_length}, context_);
    EXPECT_EQ(test::text_of(context_, stream_of(dataset)), text + "<|end|>");
    EXPECT_EQ(dataset.size(), (dataset.num_tokens() - 2) / seq_length + 1);
  }
}

TEST_F(TextTest, RecordsAndFilesAreDocuments) {
  const auto records = file("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two<|end|>\"}\n");
  const TextDataset dataset({records, file("b.txt", "three")}, {.seq_length = 4}, context_);
  EXPECT_EQ(test::text_of(context_, stream_of(dataset)), "one<|end|>two<|end|>three<|end|>");
  EXPECT_THAT(dataset.description(), HasSubstr("3 document(s)"));
  const TextDataset bare({records}, {.seq_length = 4, .append_end_of_text = false}, context_);
  EXPECT_EQ(test::text_of(context_, stream_of(bare)), "onetwo<|end|>");
}

TEST_F(TextTest, OrderDoesNotDependOnThreads) {
  std::string lines;
  for (int number = 0; number < 500; ++number) lines += "{\"body\": \"document " + std::to_string(number) + "\"}\n";
  const auto path = file("a.jsonl", lines);
  const TextOptions options{.seq_length = 16, .text_column = "body"};
  const TextDataset one({path}, options, context_);
  context_.num_threads = 7;
  const TextDataset seven({path}, options, context_);
  EXPECT_EQ(stream_of(one), stream_of(seven));
}

TEST_F(TextTest, SlicesAndLimitsChooseWindows) {
  const auto path = file("a.txt", std::string(200, 'x') + "end");
  const TextDataset all({path}, {.seq_length = 4}, context_);
  ASSERT_GT(all.size(), 20);
  const TextDataset slice({path}, {.seq_length = 4, .split = "train[5:9]"}, context_);
  ASSERT_EQ(slice.size(), 4);
  EXPECT_EQ(slice.sample(0).input_ids, all.sample(5).input_ids);
  EXPECT_EQ(slice.sample(0).number, 0);
  EXPECT_EQ(TextDataset({path}, {.seq_length = 4, .split = "train[5:9]", .limit = 3}, context_).size(), 3);
  EXPECT_THAT(test::error_of([&] { TextDataset({path}, {.seq_length = 4, .split = "train[9:9]"}, context_); }), HasSubstr("keeps no"));
}

TEST_F(TextTest, NamesWhatIsWrong) {
  const auto error = [&](const std::filesystem::path& path, const TextOptions& options) {
    return test::error_of([&] { TextDataset({path}, options, context_); });
  };
  EXPECT_THAT(error(file("a.txt", "text \xC3("), {.seq_length = 4}), HasSubstr("a.txt: invalid UTF-8 at byte 5"));
  EXPECT_THAT(error(file("a.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"a\"}\n"), {.seq_length = 4}), HasSubstr("a.jsonl:2: there is no column 'text'"));
  EXPECT_THAT(error(file("a.txt", ""), {.seq_length = 4, .append_end_of_text = false}), HasSubstr("the dataset is empty"));
  EXPECT_THAT(error(file("a.txt", "abc"), {}), HasSubstr("seq_length is not given"));
  context_.vocab_size = 50;
  EXPECT_THAT(error(file("a.txt", "the question"), {.seq_length = 64}), HasSubstr("outside the model's vocabulary of 50"));
}

}  // namespace
}  // namespace tessera::data
