#include "tessera/data/preprocess.h"

#include <gmock/gmock.h>

#include <map>

#include "data/dataset/dataset_fixture.h"
#include "support/fault_operations.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/data/summary.h"
#include "tessera/formats/megatron.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;

/// The files of a directory by name.
std::map<std::string, std::string> contents(const std::filesystem::path& directory) {
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) found[entry.path().filename()] = test::read_file(entry.path());
  return found;
}

class PreprocessTest : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, std::string_view text) {
    test::write_file(directory_ / name, text);
    return directory_ / name;
  }
  test::TemporaryDirectory directory_;
  std::unique_ptr<FileOperations> operations_ = posix_file_operations();
  Tokenizer tokenizer_ = test::small_tokenizer("tokenizer");
};

TEST_F(PreprocessTest, DocumentsKeepTheirOrderAndText) {
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "{\"text\": \"the keeper of number " + std::to_string(i) + "\"}\n";
  const auto input = file("a.jsonl", lines + "{\"text\": \"\"}\n");
  std::string first;
  for (const int threads : {1, 4}) {
    const PreprocessResult result =
        preprocess(*operations_, {input, file("b.txt", "plain")}, tokenizer_, directory_ / "out", {.append_eod = true, .num_threads = threads});
    EXPECT_EQ(result.prefix, directory_ / "out_text_document");
    EXPECT_EQ(result.num_documents, 302);
    const formats::MegatronFile written(result.prefix);
    ASSERT_EQ(written.num_sequences(), 301);  // an empty document has no tokens, and no end
    EXPECT_EQ(written.num_tokens(), result.num_tokens);
    EXPECT_EQ(written.type(), formats::MegatronType::U16);
    std::vector<std::int64_t> tokens;
    written.append(299, 0, written.length(299), tokens);
    EXPECT_EQ(tokens.back(), 1);
    tokens.pop_back();
    EXPECT_EQ(tokenizer_.decode(std::vector<TokenId>(tokens.begin(), tokens.end()), false), "the keeper of number 299");
    const std::string bytes = test::read_file(result.prefix.string() + ".bin") + test::read_file(result.prefix.string() + ".idx");
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first);
  }
}

TEST_F(PreprocessTest, MistakesLeaveWhatWasThere) {
  const auto make = [&](const std::filesystem::path& input) { preprocess(*operations_, {input}, tokenizer_, directory_ / "out", {}); };
  make(file("a.jsonl", "{\"text\": \"x\"}\n"));
  const auto before = contents(directory_.path());
  EXPECT_THAT(test::error_of([&] { make(file("b.jsonl", "{\"text\": \"x\"}\n{\"body\": \"x\"}\n")); }),
              HasSubstr("b.jsonl:2: there is no column 'text'"));
  EXPECT_THAT(test::error_of([&] { make(file("c.jsonl", "{\"text\": \"x\xff\"}\n")); }),
              HasSubstr("c.jsonl:1: invalid UTF-8 at byte 11 of the file"));
  EXPECT_THAT(test::error_of([&] { make(file("d.txt", "ab\xff")); }), HasSubstr("invalid UTF-8 at byte 2"));
  for (const char* input : {"b.jsonl", "c.jsonl", "d.txt"}) std::filesystem::remove(directory_ / input);
  EXPECT_EQ(contents(directory_.path()), before);
}

/// On a disk that is full from some operation on there is the earlier data set, the new one, or none: no half of one.
TEST_F(PreprocessTest, AFullDiskLeavesNothingHalfWritten) {
  const auto one = file("a.jsonl", "{\"text\": \"x\"}\n"), other = file("b.jsonl", "{\"text\": \"the keeper\"}\n{\"text\": \"answers\"}\n");
  preprocess(*operations_, {one}, tokenizer_, directory_ / "out", {});
  const auto before = contents(directory_.path());
  bool completed = false;
  for (int failing = 0; !completed; ++failing) {
    ASSERT_LT(failing, 100);
    preprocess(*operations_, {one}, tokenizer_, directory_ / "out", {});
    FaultOperations operations(*operations_, {.at = failing, .kind = FaultKind::NoSpace, .lasting = true});
    try {
      preprocess(operations, {other}, tokenizer_, directory_ / "out", {});
      completed = true;
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("No space left on device"));
    }
    const auto after = contents(directory_.path());
    for (const auto& [name, content] : after) EXPECT_THAT(name, testing::Not(HasSubstr("incomplete"))) << "operation " << failing;
    const bool kept = !completed && after.contains("out_text_document.idx");
    EXPECT_TRUE(!kept || after == before) << "operation " << failing;
  }
  EXPECT_EQ(formats::MegatronFile(directory_ / "out_text_document").num_sequences(), 2);
}

TEST_F(PreprocessTest, WhereNothingCanBeWrittenIsSaidFirst) {
  EXPECT_THAT(test::error_of([&] { preprocess(*operations_, {directory_ / "absent.jsonl"}, tokenizer_, directory_ / "nowhere" / "out", {}); }),
              testing::AllOf(HasSubstr("there is no directory"), HasSubstr("nowhere\n  rule: only the last part of the path is created")));
}

/// The published file's documents, decoded, come out as the same bytes again.
TEST_F(PreprocessTest, IsByteForByteWhatMegatronWrites) {
  const auto published = test::shared_data("data/megatron/meg-gpt2-openwebtext_text_document.idx");
  TESSERA_SKIP_WITHOUT(published);
  const std::filesystem::path folder = published.parent_path();
  Json definition = read_json_file(test::test_data("data/tokenizer/tokenizer.json"));
  definition["added_tokens"] = Json::array();
  definition["model"]["vocab"] = read_json_file(folder / "gpt2-tiny-vocab.json");
  definition["model"]["merges"] = Json::array();
  for (const std::string& line : split(test::read_file(folder / "gpt2-tiny-merges.txt"), '\n'))
    if (!line.empty() && !line.starts_with("#version")) definition["model"]["merges"].push_back(line);
  TokenizerDefinition parsed = parse_tokenizer_json(definition.dump(), "tiny gpt2");
  parsed.special_tokens.eos = definition["model"]["vocab"]["<|endoftext|>"].get<TokenId>();
  const Tokenizer tokenizer(parsed);

  const formats::MegatronFile file(published);
  std::string lines;
  for (std::int64_t document = 0; document < file.num_sequences(); ++document) {
    std::vector<std::int64_t> tokens;
    file.append(document, 0, file.length(document), tokens);
    ASSERT_EQ(tokens.back(), *parsed.special_tokens.eos);
    tokens.pop_back();
    lines += Json{{"text", tokenizer.decode(std::vector<TokenId>(tokens.begin(), tokens.end()), false)}}.dump() + "\n";
  }
  test::write_file(directory_ / "text.jsonl", lines);
  const PreprocessResult result =
      preprocess(*operations_, {directory_ / "text.jsonl"}, tokenizer, directory_ / "out", {.append_eod = true, .num_threads = 2});
  EXPECT_TRUE(test::read_file(result.prefix.string() + ".bin") == test::read_file(std::filesystem::path(published).replace_extension(".bin")));
  EXPECT_TRUE(test::read_file(result.prefix.string() + ".idx") == test::read_file(published));
}

TEST(LengthHistogram, HasRoundBins) {
  const auto bins = length_histogram({3, 4, 17, 18, 19, 96}, 10);
  ASSERT_EQ(bins.size(), 10U);
  EXPECT_EQ(bins[0].begin, 0);
  EXPECT_EQ(bins[0].end, 10);
  EXPECT_EQ(bins[1].count, 3);
  EXPECT_EQ(bins[9].count, 1);
  EXPECT_EQ(length_histogram({5, 5}, 10).size(), 1U);
}

TEST(SampleSpans, SeparateWhatIsLearnt) {
  const Tokenizer tokenizer = test::small_tokenizer("tokenizer");
  const auto tokens = tokenizer.encode("the keeper answers yes", false);
  Sample sample;
  sample.input_ids.assign(tokens.begin(), tokens.end() - 1);
  sample.labels.assign(tokens.begin() + 1, tokens.end());
  std::fill(sample.labels.begin(), sample.labels.end() - 2, kIgnoredLabel);
  const auto spans = sample_spans(sample, &tokenizer);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].text + spans[1].text, "the keeper answers yes");
  EXPECT_TRUE(spans[1].trained);
  EXPECT_EQ(spans[1].text, tokenizer.decode(std::span(tokens).last(2), false));
  EXPECT_EQ(sample_spans({.input_ids = {7, 8}, .labels = {kIgnoredLabel, 9}}, nullptr)[1].text, "9 ");
}

}  // namespace
}  // namespace tessera::data
