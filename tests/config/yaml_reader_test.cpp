#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/config/node.h"

namespace tessera::config {
namespace {

using test::error_of;
using ::testing::HasSubstr;

std::string refusal(const std::string& text, const YamlLimits& limits = {}) {
  return error_of([&] { parse_yaml(text, "r.yaml", limits); });
}

TEST(YamlReader, KeepsOrderPositionsAndQuotes) {
  const Node root = parse_yaml("b: 'none'\na:\n  - x\n  - \"y\"\n", "r.yaml");
  ASSERT_EQ(root.entries.size(), 2U);
  EXPECT_EQ(root.entries[0].key, "b");
  EXPECT_TRUE(root.entries[0].value.quoted);
  EXPECT_EQ(to_string(root.entries[1].position), "r.yaml:2");
  EXPECT_EQ(to_string(root.find("a")->items[1].position), "r.yaml:4");
  EXPECT_FALSE(root.find("a")->items[0].quoted);
}

TEST(YamlReader, CopiesAliases) {
  const Node root = parse_yaml("a: &x {k: 1}\nb: *x\nc: [*x, *x]\n", "r.yaml");
  EXPECT_EQ(to_json(root), Json::parse(R"({"a": {"k": 1}, "b": {"k": 1}, "c": [{"k": 1}, {"k": 1}]})"));
}

TEST(YamlReader, MergesMapsUnderExplicitKeys) {
  const Node root = parse_yaml("x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nm:\n  a: 9\n  <<: [*x, *y]\nn:\n  <<: *y\n  b: 0\n", "r.yaml");
  EXPECT_EQ(to_json(*root.find("m")), Json::parse(R"({"a": 9, "b": 2, "c": 4})"));
  EXPECT_EQ(to_json(*root.find("n")), Json::parse(R"({"b": 0, "c": 4})"));
}

TEST(YamlReader, EmptyTextIsNull) {
  EXPECT_TRUE(is_null(parse_yaml("", "r.yaml")));
  EXPECT_TRUE(is_null(parse_yaml("# nothing\n", "r.yaml")));
}

TEST(YamlReader, RefusesDuplicateKeysWithBothLines) {
  const std::string message = refusal("a: 1\nb: 2\na: 3\n");
  EXPECT_THAT(message, HasSubstr("r.yaml:3: a is given twice"));
  EXPECT_THAT(message, HasSubstr("r.yaml:1"));
}

TEST(YamlReader, RefusesWhatNoRecipeNeeds) {
  EXPECT_THAT(refusal("a: 1\n---\nb: 2\n"), HasSubstr("second YAML document"));
  EXPECT_THAT(refusal("? [1, 2]\n: x\n"), HasSubstr("plain word"));
  EXPECT_THAT(refusal("a: !!python/object:os.system x\n"), HasSubstr("not supported"));
  EXPECT_THAT(refusal("a: &x [*x]\n"), HasSubstr("alias refers to the node that contains it"));
  EXPECT_THAT(refusal("m:\n  <<: 3\n"), HasSubstr("<< needs a map"));
}

TEST(YamlReader, MalformedTextHasItsLine) {
  EXPECT_THAT(refusal("a: 1\nb: [1, 2\nc: 3\n"), HasSubstr("r.yaml:"));
  EXPECT_THAT(refusal("a: *nowhere\n"), HasSubstr("r.yaml:1: malformed YAML"));
  EXPECT_THAT(refusal(std::string("a: \xff\n")), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal(std::string("a: \0b\n", 6)), HasSubstr("not a text file"));
}

TEST(YamlReader, AliasBombsEndEarly) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k ? ", " : "") + before;
    bomb += "]\n";
  }
  EXPECT_THAT(refusal(bomb), HasSubstr("more than 200000 nodes"));

  std::string long_text = "a: &a \"" + std::string(1 << 20, 'x') + "\"\nb: [*a";
  for (int i = 0; i < 100; ++i) long_text += ", *a";
  EXPECT_THAT(refusal(long_text + "]\n"), HasSubstr("too large through aliases"));
}

TEST(YamlReader, DepthAndSizeAreLimited) {
  EXPECT_THAT(refusal(std::string(100, '[') + std::string(100, ']')), HasSubstr("nesting is deeper than 64"));
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("nesting is deeper than 64"));
  EXPECT_THAT(refusal("a: 1234567890\n", {.bytes = 8}), HasSubstr("at most"));
  EXPECT_THAT(refusal(std::string(201, 'k') + ": 1\n"), HasSubstr("a key of 201 characters"));
  std::string many;
  for (int i = 0; i < 2001; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(refusal(many), HasSubstr("r.yaml:2001: a section has more than 2000 keys"));
}

}  // namespace
}  // namespace tessera::config
