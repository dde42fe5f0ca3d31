#include "tessera/config/override.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::config {
namespace {

using ::testing::HasSubstr;

/// The tree after the arguments; throws what they do wrong.
Json after(const std::string& yaml, const std::vector<std::string>& arguments) {
  Node root = parse_yaml(yaml, "r.yaml");
  ProblemList problems;
  apply_overrides(root, parse_overrides(arguments, problems), problems);
  problems.throw_if_any();
  return to_json(root);
}

TEST(Override, ThreeForms) {
  EXPECT_EQ(after("a: {b: 1}\n", {"--a.b", "2"}), Json::parse(R"({"a": {"b": 2}})"));
  EXPECT_EQ(after("a: {b: 1}\n", {"--a.b=2"}), Json::parse(R"({"a": {"b": 2}})"));
  EXPECT_EQ(after("a: {b: 1}\n", {"--flag", "--a.b", "-1.5"}), Json::parse(R"({"a": {"b": -1.5}, "flag": true})"));
}

TEST(Override, ValuesAreYaml) {
  EXPECT_EQ(after("a: 1\n", {"--a", "none"})["a"], nullptr);
  EXPECT_EQ(after("a: 1\n", {"--a", "true"})["a"], true);
  EXPECT_EQ(after("a: 1\n", {"--a", "[0.9, 0.95]"})["a"], Json::parse("[0.9, 0.95]"));
  EXPECT_EQ(after("a: 1\n", {"--a={b: [1, x]}"})["a"], Json::parse(R"({"b": [1, "x"]})"));
  EXPECT_EQ(after("a: 1\n", {"--a", "'12'"})["a"], 12);  // AutoModel reads numbers inside quotes too
  EXPECT_EQ(after("a: 1\n", {"--a="})["a"], nullptr);
}

TEST(Override, TextOfACommandLineIsNotYamlSyntax) {
  EXPECT_EQ(after("a: 1\n", {"--a", "*.jsonl"})["a"], "*.jsonl");
  EXPECT_EQ(after("a: 1\n", {"--a", "Question: why # not"})["a"], "Question: why # not");
  EXPECT_EQ(after("a: 1\n", {"--a=b=c"})["a"], "b=c");
}

TEST(Override, MakesMissingSectionsAndFollowsListIndices) {
  EXPECT_EQ(after("x: 1\n", {"--a.b.c", "1"})["a"], Json::parse(R"({"b": {"c": 1}})"));
  EXPECT_EQ(after("a: none\n", {"--a.b", "1"})["a"], Json::parse(R"({"b": 1})"));
  EXPECT_EQ(after("a: [1, 2]\n", {"--a.1", "3"})["a"], Json::parse("[1, 3]"));
  EXPECT_EQ(after("a: [1, 2]\n", {"--a.2", "3"})["a"], Json::parse("[1, 2, 3]"));
  EXPECT_EQ(after("a: [{b: 1}]\n", {"--a.0.b", "2"})["a"], Json::parse(R"([{"b": 2}])"));
  EXPECT_EQ(after("x: 1\n", {"--a.b.0", "1", "--a.b.1", "2"})["a"], Json::parse(R"({"b": [1, 2]})"));
  EXPECT_EQ(after("a: none\n", {"--a.0.b.c", "1"})["a"], Json::parse(R"([{"b": {"c": 1}}])"));
}

TEST(Override, MistakesNameTheArgument) {
  const auto refusal = [](const std::string& yaml, const std::vector<std::string>& arguments) {
    return test::error_of([&] { after(yaml, arguments); });
  };
  EXPECT_THAT(refusal("a: [1]\n", {"--a.5", "1"}), HasSubstr("command line: a.5: 5 is not an index of a list of 1 (r.yaml:1)"));
  EXPECT_THAT(refusal("x: 1\n", {"--a.b.1", "1"}), HasSubstr("command line: a.b.1: there is no list that has an item before 1"));
  EXPECT_THAT(refusal("x: 1\n", {"--a.00", "1"}), HasSubstr("no list"));
  EXPECT_THAT(refusal("a: x\n", {"--a.b", "1"}), HasSubstr("cannot set b inside a plain value (r.yaml:1)"));
  EXPECT_THAT(refusal("a: 1\n", {"stray"}), HasSubstr("unexpected argument \"stray\""));
  EXPECT_THAT(refusal("a: 1\n", {"--a..b", "1"}), HasSubstr("is not a path"));
  EXPECT_THAT(refusal("a: 1\n", {"--a", "[1, 2"}), HasSubstr("command line: --a"));
  // All at once.
  EXPECT_THAT(refusal("a: 1\n", {"stray", "--a.b", "1"}), AllOf(HasSubstr("stray"), HasSubstr("cannot set b")));
}

TEST(Override, ThePositionIsTheArgument) {
  Node root = parse_yaml("a: 1\n", "r.yaml");
  ProblemList problems;
  apply_overrides(root, parse_overrides(std::vector<std::string>{"--a.b.c", "2"}, problems), problems);
  EXPECT_FALSE(problems.empty());
  root = Node::map({});
  ProblemList none;
  apply_overrides(root, parse_overrides(std::vector<std::string>{"--a.b", "2"}, none), none);
  EXPECT_EQ(where(root, "a.b"), "command line");
}

}  // namespace
}  // namespace tessera::config
