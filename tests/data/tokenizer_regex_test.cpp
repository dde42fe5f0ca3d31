#include "tessera/data/tokenizer/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/support.h"

namespace tessera::data {
namespace {

std::vector<std::string> matches(const std::string& oniguruma, std::string_view text) {
  std::vector<std::string> found;
  Regex(translate_oniguruma(oniguruma, "test"), "test").for_each_match(text, [&](std::size_t begin, std::size_t end) {
    found.emplace_back(text.substr(begin, end - begin));
  });
  return found;
}

using testing::ElementsAre;

TEST(Oniguruma, ClassesHaveItsMeaning) {
  EXPECT_THAT(matches(R"(\s+)", "a\u00a0\u2003b\u180ec"), ElementsAre("\u00a0\u2003")) << "U+180E is no white space";
  EXPECT_THAT(matches(R"(\w+)", "né_1 \u0301x\u00b2y"), ElementsAre("né_1", "\u0301x", "y")) << "marks are word characters, superscripts are not";
  EXPECT_THAT(matches(R"(\h+)", "xyz12eFg"), ElementsAre("12eF"));
  EXPECT_THAT(matches(R"([^\s\d]+)", "ab 12 c"), ElementsAre("ab", "c"));
}

TEST(Oniguruma, NestedAndIntersectedClasses) {
  EXPECT_THAT(matches("[a[bc]]+", "abcd"), ElementsAre("abc"));
  EXPECT_THAT(matches(R"([\p{L}&&[^\p{Han}]]+)", "ab日本cd"), ElementsAre("ab", "cd"));
  EXPECT_THAT(matches("[^a-c&&b-z]+", "abxyc"), ElementsAre("a", "xy")) << "^ negates the whole intersection";
  EXPECT_THAT(matches("[]a]+", "a]b"), ElementsAre("a]"));
}

TEST(Oniguruma, LinesOptionsAndEscapes) {
  EXPECT_THAT(matches("^b$", "a\nb\nc"), ElementsAre("b"));
  EXPECT_THAT(matches("(?m:a.b)", "a\nb"), ElementsAre("a\nb"));
  EXPECT_THAT(matches("\\u0041", "A"), ElementsAre("A"));
  EXPECT_THAT(matches(R"(\p{N}{1,3}+)", "12345"), ElementsAre("12345")) << "a plus after an interval repeats it";
}

TEST(Oniguruma, WhatHasNoEquivalentIsRefused) {
  EXPECT_THAT(test::error_of([] { matches("[a[^b]]", ""); }), testing::HasSubstr("not supported"));
  EXPECT_THAT(test::error_of([] { matches("(a", ""); }), testing::HasSubstr("not supported"));
  EXPECT_THAT(test::error_of([] { matches("[a", ""); }), testing::HasSubstr("not closed"));
}

TEST(Regex, SettledMatchesDoNotDependOnWhatFollows) {
  const Regex pattern(translate_oniguruma(R"( ?\p{L}+|\s+(?!\S)|\s+)", "test"), "test");
  std::vector<std::string> settled;
  const std::string_view text = "one two   three";
  const std::size_t start =
      pattern.for_each_settled_match(text, [&](auto begin, auto end) { settled.emplace_back(text.substr(begin, end - begin)); });
  EXPECT_THAT(settled, ElementsAre("one", " two", "  ")) << "the last word may grow";
  EXPECT_EQ(start, 9U);
  EXPECT_EQ(pattern.for_each_settled_match("one  ", [](auto, auto) {}), 3U) << "white space may be followed by anything";
}

TEST(Regex, EmptyMatchesAdvanceByWholeCharacters) { EXPECT_THAT(matches("x*", "é"), ElementsAre("", "")); }

}  // namespace
}  // namespace tessera::data
