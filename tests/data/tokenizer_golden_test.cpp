#include <gtest/gtest.h>

#include "support/support.h"
#include "tessera/core/json.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {
namespace {

using test::shared_data;

/// Token ids of 305 awkward texts by the `tokenizers` library.
class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, EqualsTokenizers) {
  const auto golden_path = shared_data("goldens/tokenizers.json");
  TESSERA_SKIP_WITHOUT(golden_path);
  const Json golden = read_json_file(golden_path);
  const Tokenizer tokenizer = load_tokenizer(shared_data(std::string("data/tokenizers/") + GetParam()));
  const Json& texts = golden["texts"];
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    const auto ids = golden["ids"][GetParam()][i].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer.encode(text, false), ids) << i << ": " << text;
    EXPECT_EQ(tokenizer.encode(text, true), golden["ids_special"][GetParam()][i].get<std::vector<TokenId>>()) << i << ": " << text;
    EXPECT_EQ(tokenizer.decode(ids, false), golden["decoded"][GetParam()][i].get<std::string>()) << i << ": " << text;
    const PrefixedEncoding both = tokenizer.encode_with_prefix(text, text.size() / 2, true);
    EXPECT_EQ(both.ids, tokenizer.encode(text, true)) << i << ": " << text;
    EXPECT_EQ(both.prefix_size, tokenizer.encode(text.substr(0, text.size() / 2), false).size()) << i << ": " << text;
    IncrementalDecoder decoder(tokenizer, false);
    std::string joined;
    for (const TokenId id : ids) joined += decoder.push(id);
    joined += decoder.finish();
    EXPECT_EQ(joined, tokenizer.decode(ids, false)) << i << ": " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden,
                         testing::Values("gpt-neox-olmo.tokenizer.json", "gpt2.tokenizer.json", "llama2.tokenizer.json", "qwen3.tokenizer.json",
                                         "unigram_1500.tokenizer.json", "wordpiece_1500.tokenizer.json", "bpe_digits_1500.tokenizer.json"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == '.' || c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace tessera::data
