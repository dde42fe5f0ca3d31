#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <memory>

#include "tessera/cli/cli.h"
#include "tessera/cli/recipe_arguments.h"
#include "tessera/config/print.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/logging.h"
#include "tessera/core/text.h"
#include "tessera/model/parameter_table.h"
#include "tessera/model/summary.h"
#include "tessera/ops/bfloat16_gemm.h"
#include "tessera/train/objects.h"

namespace tessera::cli {
namespace {

struct Report {
  std::optional<train::ModelPlan> plan;
  std::int64_t rows = 1;
  std::int64_t length = 1;
  model::MemoryEstimate memory;
  std::vector<Problem> problems;
};

/// Everything that stands in the way of training, as one list.
Report examine(const config::LoadedRecipe& recipe, const config::Environment& environment) {
  Report report;
  report.problems = recipe.unsupported;
  const std::vector<Problem> absent = config::absent_resources(recipe, environment);
  report.problems.insert(report.problems.end(), absent.begin(), absent.end());
  ProblemList batches;
  config::validate_batch_sizes(recipe, 1, batches);
  report.problems.insert(report.problems.end(), batches.problems().begin(), batches.problems().end());
  try {
    report.plan = train::plan_model(recipe, environment);
  } catch (const UserError& error) {
    // A model that is not on disk has been listed already.
    if (absent.empty()) report.problems.insert(report.problems.end(), error.problems().begin(), error.problems().end());
    return report;
  }
  const model::ModelSpec& spec = report.plan->spec;
  report.rows = recipe.recipe.step_scheduler.local_batch_size;
  const std::optional<std::int64_t> length = recipe.recipe.dataset ? recipe.recipe.dataset->seq_length : std::nullopt;
  report.length = length.value_or(std::min<std::int64_t>(spec.max_position_embeddings, 1024));
  report.memory = model::estimate_memory(spec, {.compute_dtype = report.plan->dtype,
                                                .num_rows = report.rows,
                                                .length = report.length,
                                                .activation_checkpointing = train::to_model(recipe.recipe.distributed.activation_checkpointing),
                                                .bfloat16_gemm = ops::has_bfloat16_gemm(at::empty({0}, at::kBFloat16))});
  return report;
}

void print_model(const Report& report) {
  const train::ModelPlan& plan = *report.plan;
  const model::ParameterTable table = model::parameter_table(plan.spec);
  fmt::print("\nmodel: {}, {} layers, computed in {}\n", plan.spec.model_type, plan.spec.num_layers(), torch_name(plan.dtype));
  for (const model::ParameterSpec& parameter : table.parameters)
    if (parameter.layer <= 0) fmt::print("  {:<44} {}\n", parameter.name, fmt::format("[{}]", fmt::join(parameter.shape, ", ")));
  if (plan.spec.num_layers() > 1) fmt::print("  (layers 1 to {} like layer 0)\n", plan.spec.num_layers() - 1);
  fmt::print("parameters    {}\n", human_count(static_cast<double>(table.num_elements())));
  fmt::print("flops/token   {} (forward and backward, {} tokens)\n", human_count(model::flops_per_token(plan.spec, report.length)), report.length);
  const model::MemoryEstimate& m = report.memory;
  const auto bytes = [](std::int64_t value) { return human_bytes(static_cast<double>(value)); };
  fmt::print("memory        weights {}, gradients {}, optimizer {}, activations {} ({} x {} tokens); {} in all\n", bytes(m.weights),
             bytes(m.gradients), bytes(m.optimizer), bytes(m.activations), report.rows, report.length, bytes(m.total()));
}

OrderedJson to_json(const Report& report) {
  OrderedJson problems = OrderedJson::array();
  for (const Problem& p : report.problems) problems.push_back({{"where", p.where}, {"what", p.what}, {"rule", p.rule}, {"fix", p.fix}});
  OrderedJson json{{"problems", problems}};
  if (!report.plan) return json;
  const model::MemoryEstimate& m = report.memory;
  json["model_type"] = report.plan->spec.model_type;
  json["parameters"] = model::parameter_table(report.plan->spec).num_elements();
  json["flops_per_token"] = model::flops_per_token(report.plan->spec, report.length);
  json["memory"] = {
      {"weights", m.weights}, {"gradients", m.gradients}, {"optimizer", m.optimizer}, {"activations", m.activations}, {"total", m.total()}};
  return json;
}

/// For programs: a recipe that cannot even be read is an answer too.
int check_for_programs(const RecipeArguments& arguments) {
  Report report;
  try {
    report = examine(load(arguments), process_environment());
  } catch (const UserError& error) {
    report.problems = error.problems();
  }
  fmt::print("{}\n", to_json(report).dump(1));
  return report.problems.empty() ? 0 : 2;
}

int check(const RecipeArguments& arguments, bool json) {
  if (json) return check_for_programs(arguments);
  const config::Environment environment = process_environment();
  const config::LoadedRecipe recipe = load(arguments);
  const Report report = examine(recipe, environment);
  fmt::print("{}", config::print_yaml(recipe.tree));
  for (const std::string& note : recipe.notes) log::note(std::string_view(note));
  if (report.plan) print_model(report);
  if (!report.problems.empty()) throw UserError(report.problems);
  fmt::print("the recipe can be trained\n");
  return 0;
}

}  // namespace

Command add_check(CLI::App& program) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* parser = program.add_subcommand("check", "Show what a recipe resolves to, what it needs, and everything wrong with it");
  const auto arguments = add_recipe_arguments(*parser);
  parser->add_flag("--json", *json, "Print sizes and problems as one JSON document");
  parser->footer(
      "Nothing is allocated. Exits with 2 when the recipe cannot be trained.\n\nexample:\n  tessera check examples/quickstart/finetune.yaml "
      "--step_scheduler.local_batch_size 4");
  return {parser, [arguments, json] { return check(*arguments, *json); }};
}

}  // namespace tessera::cli
