#include "tessera/core/text.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Text, EditDistance) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("same", "same"), 0U);
}

TEST(Text, NearestNamesComeNearestFirst) {
  const std::vector<std::string> known{"max_steps", "seed", "num_epochs", "ckpt_every_steps"};
  EXPECT_EQ(nearest_names("max_step", known), std::vector<std::string>{"max_steps"});
  EXPECT_EQ(nearest_names("steps", known), (std::vector<std::string>{"max_steps", "ckpt_every_steps"}));
  EXPECT_TRUE(nearest_names("zebra", known).empty());
}

TEST(Text, AShortWordResemblesFewOthers) {
  const std::vector<std::string> known{"q", "a", "lr", "eps"};
  EXPECT_TRUE(nearest_names("x", known).empty()) << "one letter resembles no other";
  EXPECT_EQ(nearest_names("lt", known), std::vector<std::string>{"lr"});
  EXPECT_EQ(nearest_names("esp", known), std::vector<std::string>{"eps"});
}

TEST(Text, DidYouMean) {
  const std::vector<std::string> known{"abc", "abd", "abe", "xyz"};
  EXPECT_EQ(did_you_mean("abf", known), "did you mean abc, abd or abe?");
  EXPECT_EQ(did_you_mean("xy", known), "did you mean xyz?");
  EXPECT_EQ(did_you_mean("nothing like it", known), "");
}

TEST(Text, NumbersForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(5.0 * 1024 * 1024 * 1024), "5.00 GiB");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(134'515'008), "134.52 M");
  EXPECT_EQ(human_duration(1.24), "1.2 s");
  EXPECT_EQ(human_duration(125), "2 min 05 s");
  EXPECT_EQ(human_duration(3600 + 120), "1 h 02 min");
}

TEST(Text, ValidUtf8) {
  EXPECT_EQ(first_invalid_utf8(""), std::string_view::npos);
  EXPECT_EQ(first_invalid_utf8("plain, \xC3\xA9, \xE2\x82\xAC, \xF0\x9F\x98\x80, \xF4\x8F\xBF\xBF"), std::string_view::npos);
  EXPECT_EQ(first_invalid_utf8(std::string_view("\0", 1)), std::string_view::npos);
}

TEST(Text, InvalidUtf8IsFoundWhereItBegins) {
  EXPECT_EQ(first_invalid_utf8("ab\xFF"), 2U);
  for (std::size_t length = 1; length <= 40; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      std::string text(length, 'a');
      text[at] = '\x80';
      EXPECT_EQ(first_invalid_utf8(text), at) << length;
    }
  }
  EXPECT_EQ(first_invalid_utf8("\x80"), 0U);
  EXPECT_EQ(first_invalid_utf8("a\xC3"), 1U);             // cut off
  EXPECT_EQ(first_invalid_utf8("\xC0\xAF"), 0U);          // overlong
  EXPECT_EQ(first_invalid_utf8("\xE0\x80\xAF"), 0U);      // overlong
  EXPECT_EQ(first_invalid_utf8("\xED\xA0\x80"), 0U);      // surrogate
  EXPECT_EQ(first_invalid_utf8("\xF4\x90\x80\x80"), 0U);  // beyond U+10FFFF
  EXPECT_EQ(first_invalid_utf8("\xF0\x8F\xBF\xBF"), 0U);  // overlong
  EXPECT_EQ(first_invalid_utf8("ok\xE2\x82(\xAC"), 2U);
}

TEST(Text, LowerAndSplit) {
  EXPECT_EQ(to_lower("LLaMA-3 É"), "llama-3 É");
  EXPECT_EQ(split("a.b..c", '.'), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(split("", '.'), std::vector<std::string>{""});
}

}  // namespace
}  // namespace tessera
