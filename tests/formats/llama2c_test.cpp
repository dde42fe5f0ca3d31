#include "tessera/formats/llama2c.h"

#include <gmock/gmock.h>

#include "formats/llama2c_builder.h"
#include "support/support.h"
#include "tessera/core/error.h"

namespace tessera::formats {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

Llama2cHeader parse_llama2c(const std::string& file) { return parse_llama2c_header(std::as_bytes(std::span(file)), "f.bin"); }
Llama2cTokenizer parse_tokenizer(const std::string& file) { return parse_llama2c_tokenizer(std::as_bytes(std::span(file)), "tok.bin"); }
std::string error_for(const std::string& file) {
  return error_of([&] { parse_llama2c(file); });
}

TEST(Llama2cHeader, LaysTensorsOutAsTheFileDoes) {
  const Llama2cHeader header = parse_llama2c(test::small_llama2c_file(false));
  EXPECT_EQ(header.config.vocab_size, 5);
  EXPECT_EQ(header.config.head_dim(), 4);
  EXPECT_FALSE(header.config.tie_word_embeddings);
  ASSERT_EQ(header.tensors.size(), 2U * 9 + 3);
  EXPECT_EQ(header.tensors[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(header.tensors[0].begin, 28U);
  EXPECT_EQ(header.tensors[3].name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(header.tensors[3].interleaved_heads, 2);
  EXPECT_EQ(header.tensors[3].begin, 28U + 4 * (40 + 16));
  EXPECT_EQ(header.tensors[6].name, "model.layers.1.self_attn.k_proj.weight");
  EXPECT_THAT(header.tensors[6].shape, ElementsAre(4, 8));
  EXPECT_EQ(header.tensors[6].interleaved_heads, 1);
  EXPECT_EQ(header.tensors.back().name, "lm_head.weight");
  EXPECT_EQ(parse_llama2c(test::small_llama2c_file(true)).tensors.back().name, "model.norm.weight");
}

TEST(Llama2cHeader, ReadsStories260K) {
  const auto path = test::shared_data("data/lm/stories260K.bin");
  TESSERA_SKIP_WITHOUT(path);
  const Llama2cHeader header = read_llama2c_header(path);
  EXPECT_EQ(header.config.hidden_size, 64);
  EXPECT_EQ(header.config.num_key_value_heads, 4);
  EXPECT_TRUE(header.config.tie_word_embeddings);
}

TEST(Llama2cHeader, RefusesWhatIsNoCheckpoint) {
  EXPECT_THAT(error_for("abc"), HasSubstr("f.bin: the file ends"));
  EXPECT_THAT(error_for(test::llama2c_file({0x616B3432, 1, 0, 0, 0, 0, 0}, 60)), HasSubstr("versioned exports are not supported"));
  EXPECT_THAT(error_for(test::llama2c_file({8, 3, 0, 2, 1, 5, 6}, 60)), HasSubstr("holds the size 0"));
  EXPECT_THAT(error_for(test::llama2c_file({8, 3, 2, 2, 1, INT32_MIN, 6}, 60)), HasSubstr("holds the size -2147483648"));
  EXPECT_THAT(error_for(test::llama2c_file({8, 3, 2, 2, 1, 5, INT32_MAX}, 60)), HasSubstr("holds the size 2147483647"));
  EXPECT_THAT(error_for(test::llama2c_file({8, 3, 20000, 2, 1, 5, 6}, 60)), HasSubstr("claims 20000 layers"));
  EXPECT_THAT(error_for(test::llama2c_file({8, 3, 2, 3, 1, 5, 6}, 60)), HasSubstr("3 heads and 1 key/value heads do not fit a hidden size of 8"));
  const std::string whole = test::small_llama2c_file(true);
  EXPECT_THAT(error_for(whole.substr(0, whole.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(error_for(whole + "x"), HasSubstr("1 bytes follow the last tensor"));
}

TEST(Llama2cTokenizer, ReadsTheVocabularyOfStories260K) {
  const auto path = test::shared_data("data/lm/tok512.bin");
  TESSERA_SKIP_WITHOUT(path);
  const Llama2cTokenizer tokenizer = read_llama2c_tokenizer(path);
  EXPECT_EQ(tokenizer.max_token_length, 7);
  ASSERT_EQ(tokenizer.tokens.size(), 512U);
  EXPECT_EQ(tokenizer.tokens[3].bytes, "<0x00>");
  EXPECT_EQ(tokenizer.tokens[260].bytes, "he");
  EXPECT_EQ(tokenizer.tokens[260].score, -1.0F);
}

TEST(Llama2cTokenizer, ReadsTokensUpToTheEnd) {
  const Llama2cTokenizer tokenizer =
      parse_tokenizer(std::string("\3\0\0\0"
                                  "\0\0\x80\x3f\3\0\0\0abc"
                                  "\0\0\0\0\0\0\0\0",
                                  4 + 11 + 8));
  ASSERT_EQ(tokenizer.tokens.size(), 2U);
  EXPECT_EQ(tokenizer.tokens[0].bytes, "abc");
  EXPECT_EQ(tokenizer.tokens[0].score, 1.0F);
  EXPECT_EQ(tokenizer.tokens[1].bytes, "");
}

TEST(Llama2cTokenizer, RefusesWhatIsNoTokenizer) {
  EXPECT_THAT(error_of([] { parse_tokenizer("ab"); }), HasSubstr("tok.bin: the file ends"));
  EXPECT_THAT(error_of([] { parse_tokenizer(std::string(4, '\0')); }), HasSubstr("it claims tokens of 0 bytes"));
  EXPECT_THAT(error_of([] { parse_tokenizer(std::string("\3\0\0\0\0\0\0\0\4\0\0\0abcd", 16)); }),
              HasSubstr("token 0 claims 4 bytes, the longest should have 3"));
  EXPECT_THAT(error_of([] { parse_tokenizer(std::string("\3\0\0\0\0\0\0\0\3\0\0\0a", 13)); }), HasSubstr("the file ends"));
}

}  // namespace
}  // namespace tessera::formats
