#include <gmock/gmock.h>

#include "support/command_line.h"
#include "support/support.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

using test::run_tessera;
using testing::HasSubstr;

/// A word-level tokenizer small enough to check by eye.
constexpr const char* kTokenizer = R"({"version": "1.0", "truncation": null, "padding": null, "normalizer": null,
  "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                     "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                     "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": false, "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4}, "merges": [["a", "b"]]}})";

class Tokenize : public testing::Test {
 protected:
  Tokenize() { test::write_file(model(), kTokenizer); }
  std::string model() const { return directory_ / "tokenizer.json"; }
  std::string write(const std::string& name, const std::string& text) const {
    test::write_file(directory_ / name, text);
    return directory_ / name;
  }

 private:
  test::TemporaryDirectory directory_;
};

TEST_F(Tokenize, TextForPeople) {
  const auto result = run_tessera({"tokenize", model(), "--text", "ab b"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_EQ(result.output, "       3  ab\n       4  Ġ\n       2  b\n");
  EXPECT_EQ(result.error, "3 tokens, 4 bytes\n");
}

TEST_F(Tokenize, FileForProgramsWithSpecialTokens) {
  const auto result = run_tessera({"tokenize", model(), "--file", write("text.txt", "aab"), "--special", "--json"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_EQ(parse_json(result.output, "output"), Json({{"ids", {0, 1, 3}}, {"tokens", {"<s>", "a", "ab"}}, {"decoded", "<s>aab"}}));
}

TEST_F(Tokenize, JsonlGivesOneAnswerALine) {
  const auto result = run_tessera({"tokenize", model(), "--jsonl", write("texts.jsonl", "\"ab\"\n\"\"\n\"b a\"\n")});
  EXPECT_EQ(result.output, "{\"ids\":[3],\"decoded\":\"ab\"}\n{\"ids\":[],\"decoded\":\"\"}\n{\"ids\":[2,4,1],\"decoded\":\"b a\"}\n");
  const auto broken = run_tessera({"tokenize", model(), "--jsonl", write("broken.jsonl", "\"ab\"\n[1]\n")});
  EXPECT_EQ(broken.status, 2);
  EXPECT_THAT(broken.error, HasSubstr("broken.jsonl:2: not a JSON string"));
}

TEST_F(Tokenize, DecodeTakesAnyListOfNumbers) {
  EXPECT_EQ(run_tessera({"tokenize", model(), "--decode", "3 4 2"}).output, "ab b\n");
  EXPECT_EQ(run_tessera({"tokenize", model(), "--decode", "[3, 4, 2]"}).output, "ab b\n");
  EXPECT_EQ(run_tessera({"tokenize", model(), "--decode", "3,4", "--json"}).output, "{\"text\":\"ab \"}\n");
  EXPECT_THAT(run_tessera({"tokenize", model(), "--decode", "3 x"}).error, HasSubstr("not a list of token ids"));
  EXPECT_EQ(run_tessera({"tokenize", model(), "--decode", "99"}).status, 2);
}

TEST_F(Tokenize, ExactlyOneInput) {
  EXPECT_EQ(run_tessera({"tokenize", model()}).status, 2);
  EXPECT_EQ(run_tessera({"tokenize", model(), "--text", "a", "--decode", "1"}).status, 2);
}

}  // namespace
}  // namespace tessera
