#include "tessera/config/print.h"

#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/config/interpolate.h"

namespace tessera::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PrintYaml, ReadsBackAsTheSameTree) {
  const std::string text =
      "a: 1\nb: {c: [1, two, \"3\"], d: {}, e: []}\nf:\n  - x: 1\n    y: [{z: 2}]\n  - [1, [2, 3]]\n  - null\ng: \"true\"\nh: |\n  two\n  lines\n"
      "i: 'a: b # c'\nj: ''\nk: ~\n\"odd: key\": -1\nm: \"\\u00e9\\t\\\"\\\\ \"\nn: '*x'\no: \"[1]\"\n";
  const Node root = parse_yaml(text, "r.yaml");
  const std::string printed = print_yaml(root);
  const Node again = parse_yaml(printed, "printed");
  EXPECT_EQ(to_json(again), to_json(root)) << printed;
  EXPECT_TRUE(again.find("g")->quoted);
  EXPECT_EQ(print_yaml(again), printed);
}

TEST(PrintYaml, WritesPlaceholdersNotValues) {
  Node root = parse_yaml("path: ${HOME}/data\ntoken: ${HF_TOKEN}\nlist: [\"${HOME}\"]\n", "r.yaml");
  ProblemList problems;
  interpolate(root, [](std::string_view) -> std::optional<std::string> { return "VALUE"; }, problems);
  const std::string printed = print_yaml(root);
  EXPECT_THAT(printed, HasSubstr("${HOME}/data"));
  EXPECT_THAT(printed, HasSubstr("${HF_TOKEN}"));
  EXPECT_THAT(printed, Not(HasSubstr("VALUE")));
}

TEST(PrintYaml, HidesSecrets) {
  const Node root = parse_yaml("wandb: {api_key: abc123, project: p}\nauth: {user: me, list: [x1y]}\ntokenizer: t\npassword: none\n", "r.yaml");
  const std::string printed = print_yaml(root);
  EXPECT_THAT(printed, Not(HasSubstr("abc123")));
  EXPECT_THAT(printed, Not(HasSubstr("x1y")));
  EXPECT_THAT(printed, Not(HasSubstr("user: me")));
  EXPECT_THAT(printed, HasSubstr("api_key: \"******\""));
  EXPECT_THAT(printed, HasSubstr("tokenizer: t"));
  EXPECT_THAT(printed, HasSubstr("password: none"));
}

TEST(PrintYaml, HidesSecretsWhateverTheirSpellingAndValue) {
  const std::string printed =
      print_yaml(parse_yaml("wandb: {hftoken: v2, mypassword: v3, client_secrets: v4, oauth: v5, passwords: v6, accesstoken: v7, authtoken: v8, "
                            "MYAPIKEY: v9, wandbapikey: v15, "
                            "tokens: v1, token: 123456789, api_key: \"${KEY,v16}\"}\n",
                            "r.yaml"));
  EXPECT_THAT(printed, AllOf(Not(HasSubstr(": v")), Not(HasSubstr("v16")), Not(HasSubstr("123456789"))));
}

TEST(PrintYaml, RootsThatAreNoMaps) {
  EXPECT_EQ(print_yaml(parse_yaml("[1, [2]]", "r")), "- 1\n- [2]\n");
  EXPECT_EQ(print_yaml(parse_yaml("", "r")), "null\n");
}

}  // namespace
}  // namespace tessera::config
