#include "tessera/cli/cli.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include "support/command_line.h"
#include "support/support.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

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

using Words = std::vector<std::string>;

/// Of a command line: "double quotes" hold words together.
Words words_of(const std::string& line) {
  Words words;
  std::istringstream stream(line);
  for (std::string word; stream >> std::quoted(word);) words.push_back(word);
  return words;
}

template <class T>
std::vector<T> operator+(std::vector<T> all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// The examples in a command's help, without the program's name.
std::vector<Words> examples_of(const std::string& command) {
  std::vector<Words> examples;
  for (const std::string& line : split(run_tessera(words_of(command) + Words{"--help"}).output, '\n'))
    if (line.starts_with("  tessera ")) examples.push_back(words_of(line.substr(std::string("  tessera ").size())));
  return examples;
}

TEST(Cli, EveryCommandHasHelpWithAnExample) {
  for (const std::string& name : cli::command_names()) {
    const auto result = run_tessera(words_of(name) + Words{"--help"});
    EXPECT_EQ(result.status, 0) << name;
    EXPECT_THAT(result.output, HasSubstr("example:\n  tessera " + name + " ")) << name;
  }
}

TEST(Cli, ExamplesAreAcceptedAsWritten) {
  EXPECT_THROW(cli::check_arguments({"tokenize", "model", "--txt", "x"}), UserError);
  for (const std::string& name : cli::command_names())
    for (const Words& example : examples_of(name)) EXPECT_NO_THROW(cli::check_arguments(example)) << testing::PrintToString(example);
}

/// What may be wrong with an example in a fresh checkout: the model is not there yet.
TEST(Cli, ExamplesOfTrainingNameRealKeysAndSizesThatDivide) {
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(test::source_directory());
  for (const Words& example : examples_of("check") + examples_of("train")) {
    Words arguments{"check", "--json"};
    for (std::size_t i = 1; i < example.size(); ++i) {
      if (example[i] == "--log-dir" || example[i] == "--trace")
        ++i;
      else
        arguments.push_back(example[i]);
    }
    const Json answer = parse_json(run_tessera(arguments).output, "check");
    for (const Json& problem : answer["problems"]) EXPECT_THAT(problem["what"], HasSubstr("not on disk")) << testing::PrintToString(example);
  }
  std::filesystem::current_path(here);
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

TEST(Cli, CommandsWithinCommandsSaySoToo) {
  const auto said = [](const Words& arguments) {
    const auto result = run_tessera(arguments);
    EXPECT_EQ(result.status, 2) << testing::PrintToString(arguments);
    return result.error;
  };
  EXPECT_EQ(said({"data", "preproces", "x"}), "error: unknown command \"preproces\"\n  fix:  did you mean preprocess?\n");
  EXPECT_THAT(said({"bench", "zzzzzz"}), HasSubstr("`tessera bench --help` lists the commands"));
  EXPECT_EQ(said({"data", "inspect", "x.yaml", "--sampels", "3"}),
            "error: tessera data inspect: unknown option --sampels\n  fix:  did you mean --samples?\n"
            "error: tessera data inspect: unexpected argument 3\n  fix:  `tessera data inspect --help` shows the options\n");
  EXPECT_THAT(said({"bench", "train", "model", "--dtpye=float32"}),
              StartsWith("error: tessera bench train: unknown option --dtpye=float32\n  fix:  did you mean --dtype?"));
  EXPECT_THAT(said({"bench", "loader", "r.yaml", "--setps=3"}),
              HasSubstr("tessera bench loader: unknown option --setps=3\n  fix:  did you mean --steps"));
  EXPECT_THAT(said({"chat-template", "render", "model", "--messages", "x", "--toolz", "y"}),
              HasSubstr("tessera chat-template render: unknown option --toolz\n  fix:  did you mean --tools?"));
  EXPECT_THAT(said({"data"}), StartsWith("error: tessera data: "));
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

TEST(Cli, WhatWouldHaveNoEffectIsRefused) {
  EXPECT_THAT(run_tessera({"generate", "model", "--prompt", "x", "--json", "--stream"}).error, HasSubstr("--stream excludes --json"));
  EXPECT_THAT(run_tessera({"eval", "model", "--text", "x", "--documents", ""}).error, HasSubstr("--documents: is empty"));
}

TEST(Cli, OverRanksOnlyTheSplitIsLeftToSay) {
  const auto misspelt = run_tessera({"generate", "model", "--prompt", "x", "--max-new-token", "3"});
  EXPECT_THAT(misspelt.error, HasSubstr("--max-new-token is an unknown option"));
  const auto other = run_tessera({"eval", "model", "--text", "x", "--optimizer.lr", "3"});
  EXPECT_THAT(other.error, HasSubstr("--optimizer.lr means nothing here"));
}

TEST(Cli, AnAnswerThatCannotBeWrittenIsAFailure) {
  const auto run = [](const std::vector<std::string>& arguments) {
    if (std::freopen("/dev/full", "w", stdout) == nullptr) std::exit(0);
    std::exit(cli::run(arguments));
  };
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"simulate", "--schedule", "1f1b", "--pp", "2", "--microbatches", "2"}, {"--version"}, {"train", "--help"}})
    EXPECT_EXIT(run(arguments), testing::ExitedWithCode(1), "error: standard output: cannot be written: No space left on device");
}

TEST(Cli, CheckAnswersProgramsAboutABrokenRecipe) {
  const auto result = run_tessera({"check", "absent.yaml", "--json"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.output, HasSubstr("absent.yaml"));
  EXPECT_THAT(result.output, StartsWith("{"));
}

}  // namespace
}  // namespace tessera
