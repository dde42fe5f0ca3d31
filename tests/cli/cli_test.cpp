#include "tessera/cli/cli.h"

#include <gmock/gmock.h>

#include "support/command_line.h"

namespace tessera {
namespace {

using test::run_tessera;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Cli, VersionNamesTesseraAndLibtorch) {
  const auto result = run_tessera({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, testing::MatchesRegex("tessera [0-9.]+ \\(libtorch [0-9].*\\)\n"));
}

TEST(Cli, WithoutArgumentsItShowsTheCommands) {
  const auto result = run_tessera({});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("tokenize"));
  EXPECT_THAT(result.output, HasSubstr("inspect"));
}

TEST(Cli, EveryCommandHasHelpWithAnExample) {
  for (const std::string& name : cli::command_names()) {
    const auto result = run_tessera({name, "--help"});
    EXPECT_EQ(result.status, 0) << name;
    EXPECT_THAT(result.output, HasSubstr("example:\n  tessera " + name)) << name;
  }
}

TEST(Cli, UnknownCommandSuggestsANearOne) {
  const auto result = run_tessera({"tokenise", "x"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.error, "error: unknown command \"tokenise\"\n  fix:  did you mean tokenize?\n");
  EXPECT_THAT(run_tessera({"zzzzzz"}).error, HasSubstr("`tessera --help` lists the commands"));
}

TEST(Cli, UnknownOptionsSuggestNearOnesAllAtOnce) {
  const auto result = run_tessera({"tokenize", "model", "--text", "x", "--specal", "--jason"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, HasSubstr("error: tessera tokenize: unknown option --specal\n  fix:  did you mean --special?"));
  EXPECT_THAT(result.error, HasSubstr("unknown option --jason\n  fix:  did you mean --json"));
}

TEST(Cli, MissingArgumentsAreMendable) {
  const auto result = run_tessera({"tokenize"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, StartsWith("error: tessera tokenize: "));
  EXPECT_THAT(result.error, HasSubstr("`tessera tokenize --help` shows the options"));
  EXPECT_EQ(run_tessera({"--bogus"}).status, 2);
}

TEST(Cli, CountsAreWholeNumbersFromOne) {
  for (const char* const value : {"-1", "0", "1.5", "x", "99999999999999999999"}) {
    const auto result = run_tessera({"generate", "model", "--prompt", "x", "--max-new-tokens", value});
    EXPECT_EQ(result.status, 2) << value;
    EXPECT_THAT(result.error, HasSubstr(std::string(value) + " is not a whole number of at least 1"));
  }
}

TEST(Cli, ASeedIsNotNegative) {
  const auto result = run_tessera({"generate", "model", "--prompt", "x", "--seed", "-1"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, HasSubstr("-1 is not a whole number of at least 0"));
}

TEST(Cli, ASystemMessageNeedsAChat) {
  const auto result = run_tessera({"generate", "model", "--prompt", "x", "--system", "y"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, HasSubstr("--system requires --chat"));
}

TEST(Cli, OverRanksOnlyTheSplitIsLeftToSay) {
  const auto misspelt = run_tessera({"generate", "model", "--prompt", "x", "--max-new-token", "3"});
  EXPECT_THAT(misspelt.error, HasSubstr("--max-new-token is an unknown option"));
  const auto other = run_tessera({"eval", "model", "--text", "x", "--optimizer.lr", "3"});
  EXPECT_THAT(other.error, HasSubstr("--optimizer.lr means nothing here"));
}

TEST(Cli, CheckAnswersProgramsAboutABrokenRecipe) {
  const auto result = run_tessera({"check", "absent.yaml", "--json"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.output, HasSubstr("absent.yaml"));
  EXPECT_THAT(result.output, StartsWith("{"));
}

}  // namespace
}  // namespace tessera
