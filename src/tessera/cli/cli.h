#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/cli/rank_arguments.h"
#include "tessera/core/json.h"

/// The `tessera` program: each subcommand's file parses its arguments, calls the layers below and prints.
/// Answers go to standard output (one JSON document with --json), everything else to standard error.
namespace tessera::cli {

/// A subcommand as its file hands it over. The file owns the options: the run function and the parser share them.
struct Command {
  CLI::App* parser = nullptr;                            ///< owned by the program's parser
  std::function<int()> run;                              ///< after parsing; returns the exit status
  std::shared_ptr<const RankArguments> ranks = nullptr;  ///< of a command that can run as several ranks
  std::vector<Command> commands = {};                    ///< of a command that only groups others: then `run` is theirs
};

/// Each adds one subcommand to `program`.
Command add_train(CLI::App& program);
Command add_check(CLI::App& program);
Command add_generate(CLI::App& program);
Command add_eval(CLI::App& program);
Command add_verify(CLI::App& program);
Command add_convert(CLI::App& program);
Command add_inspect(CLI::App& program);
Command add_tokenize(CLI::App& program);
Command add_chat_template(CLI::App& program);
Command add_data(CLI::App& program);
Command add_bench(CLI::App& program);
Command add_checkpoint(CLI::App& program);
Command add_simulate(CLI::App& program);

/// One JSON document on standard output.
void print_json(const OrderedJson& answer);

/// Checks that an option's value is a whole number of at least `smallest`.
CLI::Validator at_least(std::int64_t smallest);

/// The names of all subcommands, and of those within them: "checkpoint", "checkpoint list".
std::vector<std::string> command_names();

/// Throws UserError unless the program takes these arguments. What recipes and their overrides say is not looked at; runs nothing.
void check_arguments(const std::vector<std::string>& arguments);

/// Runs the program on its arguments (without its own name) and returns the exit status: 0 done, 1 something failed at run time, 2 something the
/// user can fix. Prints every error in the form of core/error.h; never throws.
int run(std::vector<std::string> arguments);

}  // namespace tessera::cli
