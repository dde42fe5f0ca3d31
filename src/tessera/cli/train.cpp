#include <fmt/format.h>

#include <memory>

#include "tessera/cli/cli.h"
#include "tessera/cli/recipe_arguments.h"
#include "tessera/comm/checked_communicator.h"
#include "tessera/comm/forwarding_communicator.h"
#include "tessera/comm/initialize.h"
#include "tessera/core/environment.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/logging.h"
#include "tessera/core/text.h"
#include "tessera/train/examine.h"
#include "tessera/train/run.h"

namespace tessera::cli {
namespace {

void print_summary(const train::RunSummary& s) {
  if (s.first_step == s.last_step) {
    fmt::print("steps         none: {} of {} were done before\n", s.first_step, s.total_steps);
    return;
  }
  fmt::print("steps         {} to {} of {}\n", s.first_step + 1, s.last_step, s.total_steps);
  fmt::print("loss          {:.4f} -> {:.4f}\n", s.first_loss, s.last_loss);
  if (s.validation_loss) fmt::print("validation    {:.4f}\n", *s.validation_loss);
  fmt::print("tokens/s      {:.1f}\n", s.tokens_per_second);
  fmt::print("peak memory   {:.2f} GiB\n", s.peak_memory_gib);
  fmt::print("first step    {:.2f} s after the start\n", s.seconds_to_first_step);
  if (s.checkpoint) fmt::print("checkpoint    {}\n", s.checkpoint->string());
}

OrderedJson to_json(const train::RunSummary& s) {
  OrderedJson json{{"first_step", s.first_step},
                   {"last_step", s.last_step},
                   {"total_steps", s.total_steps},
                   {"first_loss", s.first_loss},
                   {"last_loss", s.last_loss},
                   {"tokens_per_second", s.tokens_per_second},
                   {"peak_memory_gib", s.peak_memory_gib},
                   {"seconds_to_first_step", s.seconds_to_first_step},
                   {"interrupted", s.interrupted}};
  json["validation_loss"] = s.validation_loss ? OrderedJson(*s.validation_loss) : OrderedJson(nullptr);
  json["checkpoint"] = s.checkpoint ? OrderedJson(s.checkpoint->string()) : OrderedJson(nullptr);
  return json;
}

struct TrainOptions {
  bool json = false;
  bool check_collectives = false;
  std::filesystem::path trace;  ///< empty: none
};

int train(const RecipeArguments& arguments, const TrainOptions& options) {
  const config::LoadedRecipe recipe = read(arguments);
  log::show_from(recipe.recipe.logging.level);
  for (const std::string& note : recipe.notes) log::note(std::string_view(note));
  const auto backend = comm::initialize_distributed(recipe.recipe.dist_env.timeout_minutes);
  const auto checked = options.check_collectives ? comm::decorated_backend(*backend, comm::checked_communicator) : nullptr;
  const train::RunSummary summary = train::train(recipe, process_environment(), checked ? *checked : *backend,
                                                 options.trace.empty() ? std::nullopt : std::optional<std::filesystem::path>(options.trace));
  options.json ? print_json(to_json(summary)) : print_summary(summary);
  return 0;
}

/// Said once by the launcher, not by every rank.
void refuse_impossible(const RecipeArguments& arguments, std::int64_t num_ranks) {
  const train::Examination examination = train::examine(read(arguments), process_environment(), num_ranks);
  if (!examination.problems.empty()) throw UserError(examination.problems);
}

}  // namespace

Command add_train(CLI::App& program) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* parser = program.add_subcommand("train", "Fine-tune or pre-train a model as a recipe says");
  const auto arguments = add_recipe_arguments(*parser);
  const auto ranks = add_rank_arguments(*parser);
  ranks->before_run = [arguments](std::int64_t num_ranks) { refuse_impossible(*arguments, num_ranks); };
  parser->add_flag("--json", options->json, "Print the summary as one JSON document");
  parser->add_option("--trace", options->trace, "Write when each rank computed, communicated and waited to FILE, for Perfetto or chrome://tracing")
      ->type_name("FILE");
  parser->add_flag("--check-collectives", options->check_collectives,
                   "For debugging: compare what the ranks issue before each operation between them, and report differences");
  parser->footer(
      "SIGINT and SIGTERM end the current step, save a checkpoint and exit with 0, on all ranks; the same command resumes from it.\n"
      "When a rank dies, all end.\n\nexample:\n"
      "  tessera train examples/quickstart/finetune.yaml --optimizer.lr 1e-4 --step_scheduler.max_steps=20\n"
      "  tessera train examples/quickstart/finetune.yaml --step_scheduler.local_batch_size 4 --nproc-per-node 2 --log-dir logs\n"
      "  tessera train examples/quickstart/finetune.yaml --step_scheduler.local_batch_size 4 --nproc-per-node 2 --trace trace.json\n"
      "On several hosts, where HOST1 and HOST2 have the same files (docs/multi-node.md):\n"
      "  mpirun --host HOST1:4,HOST2:4 tessera train RECIPE");
  return {parser, [arguments, options] { return train(*arguments, *options); }, ranks};
}

}  // namespace tessera::cli
