#include "tessera/config/interpolate.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::config {
namespace {

using ::testing::HasSubstr;

std::optional<std::string> variables(std::string_view name) {
  if (name == "HOME") return "/home/me";
  if (name == "LR") return "1e-4";
  if (name == "a.b") return "dotted";
  if (name == "MONEY") return "$HOME";
  if (name == "EMPTY") return "";
  return std::nullopt;
}

Node interpolated(const std::string& value) {
  Node root = parse_yaml("k: " + value + "\n", "r.yaml");
  ProblemList problems;
  interpolate(root, variables, problems);
  problems.throw_if_any();
  return *root.find("k");
}

TEST(Interpolate, EveryForm) {
  EXPECT_EQ(interpolated("${HOME}").text, "/home/me");
  EXPECT_EQ(interpolated("\"${HOME}/data and ${LR}\"").text, "/home/me/data and 1e-4");
  EXPECT_EQ(interpolated("\"${NOPE,fallback, with comma}\"").text, "fallback, with comma");
  EXPECT_EQ(interpolated("${oc.env:HOME}").text, "/home/me");
  EXPECT_EQ(interpolated("\"${oc.env:NOPE,7}\"").text, "7");
  EXPECT_EQ(interpolated("$HOME/x").text, "/home/me/x");
  EXPECT_EQ(interpolated("$a.b.").text, "dotted.");
  EXPECT_EQ(interpolated("${EMPTY}").text, "");
  EXPECT_EQ(interpolated("\"${NOPE,}\"").text, "");
}

TEST(Interpolate, ValuesAreTypedAfterwardsAndNotSearchedAgain) {
  EXPECT_EQ(as_double(interpolated("${LR}")), 1e-4);
  EXPECT_EQ(interpolated("${MONEY}").text, "$HOME");
  EXPECT_EQ(interpolated("costs 5$ and $ 3").text, "costs 5$ and $ 3");
  EXPECT_EQ(interpolated("costs 5$").placeholder, std::nullopt);
}

TEST(Interpolate, KeepsTheTextAsWritten) { EXPECT_EQ(interpolated("a${HOME}b").placeholder, "a${HOME}b"); }

TEST(Interpolate, UnsetVariablesAreAllReported) {
  const std::string message = test::error_of([] {
    Node root = parse_yaml("a: ${ONE}\nb: [x, $TWO]\n", "r.yaml");
    ProblemList problems;
    interpolate(root, variables, problems);
    problems.throw_if_any();
  });
  EXPECT_THAT(message, HasSubstr("r.yaml:1: ${ONE}: the environment variable ONE is not set"));
  EXPECT_THAT(message, HasSubstr("r.yaml:2: $TWO"));
}

TEST(Interpolate, WhatIsNoPlaceholderIsAMistakeNotText) {
  const auto refusal = [](const std::string& value) { return test::error_of([&] { interpolated("'" + value + "'"); }); };
  for (const auto& [value, why] : std::vector<std::pair<std::string, std::string>>{
           {"nest-${HOME,${B,x}}", "${HOME,${B,x}}: has braces within its own"},
           {"${${HOME}}/x", "${${HOME}}: has braces within its own"},
           {"${NOPE,{x}}", "${NOPE,{x}}: has braces within its own"},
           {"a/${HOME", "${HOME: has no closing brace"},
           {"${HOME and ${LR}", "${HOME and ${LR}: has no closing brace"},
           {"${oc.decode:HOME}", "${oc.decode:HOME}: names no environment variable"},
           {"${HOME:-x}", "${HOME:-x}: names no environment variable"},
           {"${,x}", "${,x}: names no environment variable"},
           {"${}", "${}: names no environment variable"},
           {"${step_scheduler.max_steps}", "the environment variable step_scheduler.max_steps is not set"}}) {
    const std::string message = refusal(value);
    EXPECT_THAT(message, HasSubstr("r.yaml:1: ")) << value;
    EXPECT_THAT(message, HasSubstr(why)) << value;
    EXPECT_THAT(message, HasSubstr("nested placeholders, references to other keys and resolvers other than oc.env are not supported")) << value;
    EXPECT_THAT(message, HasSubstr("fix:  write the value itself")) << value;
  }
}

TEST(Secret, IsAPartOfTheKey) {
  for (const char* key : {"password",
                          "db_password",
                          "secret",
                          "client-secret",
                          "token",
                          "hf_token",
                          "accessToken",
                          "apikey",
                          "api_key",
                          "API_KEY",
                          "apiKey",
                          "authorization",
                          "auth",
                          "hftoken",
                          "mypassword",
                          "client_secrets",
                          "oauth",
                          "passwords",
                          "accesstoken",
                          "authtoken",
                          "MYAPIKEY",
                          "wandbapikey",
                          "tokens",
                          "auth_header",
                          "ipad_token",
                          "super_token",
                          "eos_token_secret",
                          "tokenizer_token",
                          "token_loss_weight"}) {
    EXPECT_TRUE(is_secret(key)) << key;
  }
}

/// What recipes call by the word without hiding anything.
TEST(Secret, IsNotWhatVocabulariesAreMadeOf) {
  for (const char* key : {"tokenizer",
                          "tokenizer_name",
                          "pretokenize",
                          "post_tokenize_hook_fn",
                          "num_tokens",
                          "author",
                          "secretary",
                          "eos_token",
                          "bos_token",
                          "bos_token_id",
                          "pad_token_id",
                          "image_token_id",
                          "pad_token",
                          "add_bos_token",
                          "start_of_turn_token",
                          "calculate_per_token_loss",
                          "dispatcher_share_token_dispatcher",
                          "decoder_start_token_id",
                          "keyboard",
                          "api",
                          "key"}) {
    EXPECT_FALSE(is_secret(key)) << key;
  }
}

std::string rewritten(const std::string& yaml, const std::string& message) {
  Node root = parse_yaml(yaml, "r.yaml");
  ProblemList problems;
  interpolate(root, variables, problems);
  return with_placeholders({{"", message, "", ""}}, root, variables)[0].what;
}

TEST(Placeholders, StandForTheirValuesInMessages) {
  EXPECT_EQ(rewritten("k: ${HOME}/data\n", "/home/me/data/x is not on disk"), "${HOME}/data/x is not on disk");
  EXPECT_EQ(rewritten("k: ${HOME}/data\n", "/home/me is not a directory"), "${HOME} is not a directory") << "a parent is told too";
  EXPECT_EQ(rewritten("k: ${HOME}/data\n", "/home/menagerie"), "/home/menagerie") << "another directory";
  EXPECT_EQ(rewritten("k: a${a.b}b\n", "\"adottedb\" is unknown"), "\"a${a.b}b\" is unknown");
  EXPECT_EQ(rewritten("k: [{l: \"${oc.env:HOME}\"}]\n", "in /home/me"), "in ${oc.env:HOME}");
}

TEST(Placeholders, StandForTheirValuesInTexts) {
  Node root = parse_yaml("k: ${HOME}/data\n", "r.yaml");
  ProblemList problems;
  interpolate(root, variables, problems);
  EXPECT_EQ(with_placeholders("3 lines from /home/me/data/x", root, variables), "3 lines from ${HOME}/data/x");
}

TEST(Placeholders, LeaveTheRecipesOwnPlaceAlone) {
  Node root = parse_yaml("k: ${HOME}/data\n", "/home/me/r.yaml");
  ProblemList problems;
  interpolate(root, variables, problems);
  EXPECT_EQ(with_placeholders({{"/home/me/r.yaml:1", "", "", ""}}, root, variables)[0].where, "/home/me/r.yaml:1");
  EXPECT_EQ(with_placeholders({{"/home/me/data/x.jsonl:1", "", "", ""}}, root, variables)[0].where, "${HOME}/data/x.jsonl:1");
}

/// Every message has numbers in it.
TEST(Placeholders, LeaveNumbersAndShortValuesAlone) {
  EXPECT_EQ(rewritten("k: ${LR}\n", "lr is 1e-4"), "lr is 1e-4");
  EXPECT_EQ(rewritten("k: ${LR}\n", "\"1e-4\" is neither, nor \"21e-4\""), "\"${LR}\" is neither, nor \"21e-4\"") << "in quotes it is this value";
  EXPECT_EQ(rewritten("k: ${EMPTY}\n", "\"\" is empty"), "\"\" is empty");
  EXPECT_EQ(rewritten("k: ${NOPE,abc}\n", "abc"), "abc");
  EXPECT_EQ(rewritten("k: ${NOPE,fsdp2}\n", "use fsdp2"), "use fsdp2") << "a default is no value of the environment";
}

}  // namespace
}  // namespace tessera::config
