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

TEST(Secret, IsAWordOfTheKey) {
  const Node text = Node::scalar("hunter2", {});
  for (const char* key : {"password", "db_password", "secret", "client-secret", "token", "hf_token", "accessToken", "apikey", "api_key",
                          "wandb.api_key", "API_KEY", "apiKey", "authorization", "auth", "auth_header"}) {
    EXPECT_TRUE(is_secret(key, text)) << key;
  }
  for (const char* key : {"tokenizer", "num_tokens", "author", "eos_token", "bos_token_id", "pad_token", "start_of_turn_token",
                          "calculate_per_token_loss", "keyboard", "secretary", "api", "key"}) {
    EXPECT_FALSE(is_secret(key, text)) << key;
  }
  EXPECT_FALSE(is_secret("token_loss_weight", Node::scalar("0.1", {})));
  EXPECT_TRUE(is_secret("password", Node::scalar("1234", {})));
}

}  // namespace
}  // namespace tessera::config
