#include "tessera/cli/cli.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>

#include "tessera/comm/initialize.h"
#include "tessera/core/environment.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/version.h"

namespace tessera::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kMendable = 2;

std::vector<Command> add_commands(CLI::App& program) {
  return {add_train(program),   add_check(program),      add_generate(program), add_eval(program),          add_verify(program),
          add_convert(program), add_inspect(program),    add_tokenize(program), add_chat_template(program), add_data(program),
          add_bench(program),   add_checkpoint(program), add_simulate(program)};
}

void describe(CLI::App& program) {
  program.require_subcommand(0, 1);
  program.set_version_flag("--version", fmt::format("tessera {} (libtorch {})", version(), TORCH_VERSION), "Print the versions and exit");
  program.footer("`tessera COMMAND --help` shows the options of a command and an example, which runs in the source folder after scripts/quickstart.");
}

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.parser->get_name());
  return names;
}

/// The parser would only say that an argument was not expected, or that one is missing. `group`: what `commands` belong to, as one types it.
void refuse_unknown_command(std::span<const std::string> arguments, const std::vector<Command>& commands, const std::string& group = "tessera") {
  if (commands.empty() || arguments.empty() || arguments[0].starts_with('-')) return;
  const auto found = std::ranges::find_if(commands, [&](const Command& command) { return command.parser->get_name() == arguments[0]; });
  if (found != commands.end()) return refuse_unknown_command(arguments.subspan(1), found->commands, group + " " + arguments[0]);
  throw UserError({"", "unknown command \"" + arguments[0] + "\"", "",
                   did_you_mean(arguments[0], names_of(commands), "`" + group + " --help` lists the commands")});
}

const Command* chosen(const std::vector<Command>& commands) {
  const auto found = std::ranges::find_if(commands, [](const Command& command) { return command.parser->parsed(); });
  if (found == commands.end()) return nullptr;
  const Command* inner = chosen(found->commands);
  return inner == nullptr ? &*found : inner;
}

/// "tessera checkpoint list".
std::string full_name(const CLI::App& parser) {
  return parser.get_parent() == nullptr ? "tessera" : full_name(*parser.get_parent()) + " " + parser.get_name();
}

std::vector<std::string> option_names(const CLI::App& parser) {
  std::vector<std::string> names;
  for (const CLI::Option* option : parser.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// The parser's complaint in Tessera's form.
UserError mistake_in_arguments(const CLI::ParseError& error, const std::vector<Command>& commands) {
  const Command* command = chosen(commands);
  const std::string where = command == nullptr ? "tessera" : full_name(*command->parser);
  const std::string help = "`" + where + " --help` shows the options";
  if (command == nullptr || error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError)) return UserError({where, error.what(), "", help});
  std::vector<Problem> problems;
  for (const std::string& extra : command->parser->remaining()) {
    problems.push_back({where, (extra.starts_with('-') ? "unknown option " : "unexpected argument ") + extra, "",
                        did_you_mean(extra.substr(0, extra.find('=')), option_names(*command->parser), help)});
  }
  return UserError(std::move(problems));
}

int run_command(const Command& command, const std::vector<std::string>& arguments, launch::RankProcess& process) {
  return command.ranks ? run_ranks(*command.ranks, arguments, process, command.run) : command.run();
}

/// Parses the arguments and returns what they ask to run. Throws CLI::Success for --help and --version, UserError for mistakes.
Command parse(CLI::App& program, const std::vector<std::string>& given) {
  describe(program);
  const std::vector<Command> commands = add_commands(program);
  refuse_unknown_command(given, commands);
  std::vector<std::string> arguments = given.empty() ? std::vector<std::string>{"--help"} : given;
  std::ranges::reverse(arguments);  // as CLI11 wants them
  try {
    program.parse(std::move(arguments));
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ParseError& error) {
    throw mistake_in_arguments(error, commands);
  }
  const Command* command = chosen(commands);
  return command == nullptr ? Command{} : *command;
}

/// The status of a command once all of its answer is written.
int written(int status) {
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output: cannot be written");
  return status;
}

int parse_and_run(const std::vector<std::string>& given, launch::RankProcess& process) {
  CLI::App program("Trains, evaluates and converts large language models.", "tessera");
  Command command;
  try {
    command = parse(program, given);
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    const int status = program.exit(asked, text, text);
    std::fputs(text.str().c_str(), stdout);
    return written(status);
  }
  return written(command.run ? run_command(command, given, process) : 0);
}

std::string out_of_memory(std::string_view detail) {
  return to_string(Problem{"", "out of memory" + std::string(detail), "",
                           "use a smaller batch, a shorter sequence or a smaller model, or a "
                           "machine with more memory"});
}

/// libtorch's allocator throws its own exception, whose header costs more than it says.
bool is_out_of_memory(std::string_view message) { return message.find("can't allocate memory") != std::string_view::npos; }

}  // namespace

CLI::Validator at_least(std::int64_t smallest) {
  const auto complaint = [smallest](const std::string& text) -> std::string {
    std::int64_t number = 0;
    // The parser's own conversion lets numbers beyond 64 bits pass as the largest.
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && number >= smallest ? "" : fmt::format("{} is not a whole number of at least {}", text, smallest);
  };
  return CLI::Validator(complaint, fmt::format(">={}", smallest));
}

std::vector<std::string> command_names() {
  CLI::App program("", "tessera");
  std::vector<std::string> names;
  for (const Command& command : add_commands(program)) {
    names.push_back(command.parser->get_name());
    for (const Command& inner : command.commands) names.push_back(command.parser->get_name() + " " + inner.parser->get_name());
  }
  return names;
}

void check_arguments(const std::vector<std::string>& arguments) {
  CLI::App program("", "tessera");
  parse(program, arguments);
}

void print_json(const OrderedJson& answer) { fmt::print("{}\n", answer.dump(1, ' ', false, OrderedJson::error_handler_t::replace)); }

int run(std::vector<std::string> arguments) {
  const at::AutoDispatchBelowADInplaceOrView without_autograd;  // ops/tape.h differentiates, not libtorch, whose layers for it cost time
  std::signal(SIGXFSZ, SIG_IGN);                                // a file that grows past a limit is a write that fails
  std::optional<launch::RankProcess> process;
  const auto failed = [&](int status, std::string_view text) {
    if (!process) process.emplace();  // what it is could not be found out
    std::fflush(stdout);              // an error stands after what led to it
    process->error(text, status);
    return status;
  };
  const int status = [&] {
    try {
      process.emplace(process_environment(), comm::joins_on_gpus());
      return parse_and_run(arguments, *process);
    } catch (const UserError& error) {
      return failed(kMendable, error.what());
    } catch (const Failure& failure) {
      return failed(kFailed, failure.what());
    } catch (const std::system_error& error) {  // of streams that cannot be written
      return failed(kFailed, std::string("error: ") + error.what());
    } catch (const std::bad_alloc&) {
      return failed(kFailed, out_of_memory(""));
    } catch (const std::exception& error) {
      if (is_out_of_memory(error.what())) return failed(kFailed, out_of_memory(": " + split(error.what(), '\n').front()));
      return failed(kFailed, std::string("internal error: ") + error.what());
    }
  }();
  process->goodbye(status);
  return status;
}

}  // namespace tessera::cli
