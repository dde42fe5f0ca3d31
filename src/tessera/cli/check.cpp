#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "tessera/cli/cli.h"
#include "tessera/cli/recipe_arguments.h"
#include "tessera/config/pipeline_schedule.h"
#include "tessera/config/print.h"
#include "tessera/core/environment.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/logging.h"
#include "tessera/core/text.h"
#include "tessera/mesh/mesh_context.h"
#include "tessera/model/parameter_table.h"
#include "tessera/model/summary.h"
#include "tessera/parallel/expert/share.h"
#include "tessera/parallel/pipeline/lowering.h"
#include "tessera/parallel/pipeline_plan.h"
#include "tessera/parallel/tensor/plan.h"
#include "tessera/plan/simulate.h"
#include "tessera/train/examine.h"
#include "tessera/train/memory_plan.h"

namespace tessera::cli {
namespace {

struct Report {
  train::Examination examination;
  std::int64_t num_ranks = 1;
  std::int64_t rows = 1;
  std::int64_t length = 1;
  std::vector<model::MemoryEstimate> memory;  ///< of the ranks of pp; one element without a pipeline
};

Report examine(const config::LoadedRecipe& loaded, std::int64_t num_ranks) {
  Report report{.examination = train::examine(loaded, process_environment(), num_ranks), .num_ranks = num_ranks, .memory = {}};
  if (!report.examination.plan) return report;
  const config::Recipe& recipe = loaded.recipe;
  const train::ModelPlan& plan = *report.examination.plan;
  report.rows = train::microbatch_rows(recipe.distributed, config::local_batch_size(recipe));
  const std::optional<std::int64_t> length = recipe.dataset ? recipe.dataset->seq_length : std::nullopt;
  report.length = length.value_or(std::min<std::int64_t>(plan.spec.max_position_embeddings, 1024));
  const std::optional<mesh::MeshSizes>& mesh = report.examination.mesh;
  if (mesh) report.memory = train::memory_plan(recipe, plan.spec, plan.dtype, *mesh, report.rows, report.length, report.examination.pipeline);
  return report;
}

std::string whose(const Report& report, std::size_t rank) {
  if (report.memory.size() > 1) return fmt::format("pp {}: ", rank);
  return report.num_ranks > 1 ? "per rank: " : "";
}

void print_memory(const Report& report, std::size_t rank) {
  const model::MemoryEstimate& m = report.memory[rank];
  const auto bytes = [](std::int64_t value) { return human_bytes(static_cast<double>(value)); };
  fmt::print("memory        {}weights {}, gradients {}, optimizer {}, {}activations {} ({} x {} tokens){}; {} in all\n", whose(report, rank),
             bytes(m.weights), bytes(m.gradients), bytes(m.optimizer),
             report.num_ranks > 1 ? fmt::format("gathered units {}, messages {}, ", bytes(m.gathered), bytes(m.messages)) : "", bytes(m.activations),
             report.rows, report.length, m.staging > 0 ? ", copy to save in the background " + bytes(m.staging) : "", bytes(m.total()));
}

void print_model(const Report& report) {
  const train::ModelPlan& plan = *report.examination.plan;
  const model::ParameterTable table = model::parameter_table(plan.spec);
  fmt::print("\nmodel: {}, {} layers, computed in {}\n", plan.spec.model_type, plan.spec.num_layers(), torch_name(plan.dtype));
  for (const model::ParameterSpec& parameter : table.parameters)
    if (parameter.layer <= 0) fmt::print("  {:<44} {}\n", parameter.name, fmt::format("[{}]", fmt::join(parameter.shape, ", ")));
  if (plan.spec.num_layers() > 1) fmt::print("  (layers 1 to {} like layer 0)\n", plan.spec.num_layers() - 1);
  fmt::print("parameters    {}\n", human_count(static_cast<double>(table.num_elements())));
  fmt::print("flops/token   {} (forward and backward, {} tokens)\n", human_count(model::flops_per_token(plan.spec, report.length)), report.length);
  for (std::size_t rank = 0; rank < report.memory.size(); ++rank) print_memory(report, rank);
}
void print_plans(const Report& report, const config::Distributed& distributed) {
  const mesh::MeshSizes& sizes = *report.examination.mesh;
  const model::ModelSpec& spec = report.examination.plan->spec;
  ProblemList problems;  // reported with all others
  const parallel::TensorPlan plan = parallel::plan_split(distributed, spec, nullptr, problems);
  fmt::print("\ntensor plan over {} ranks\n", sizes.tp);
  for (const std::string& line : parallel::describe(plan, spec, sizes.tp, distributed.sequence_parallel)) fmt::print("  {}\n", line);
  if (!spec.experts) return;
  fmt::print("\nexperts over {} ranks\n", sizes.ep);
  for (const std::string& line : parallel::describe_experts(spec.experts->num_experts, sizes)) fmt::print("  {}\n", line);
}

/// The axes, alone and taken together, along which the ranks differ: one name for equal groups.
std::vector<mesh::AxisSet> axes_to_show(const mesh::MeshSizes& sizes) {
  using mesh::Axis;
  std::vector<mesh::AxisSet> shown;
  for (const mesh::AxisSet axes : {mesh::AxisSet(Axis::PipelineParallel), mesh::AxisSet(Axis::DataReplicate), mesh::AxisSet(Axis::DataShard),
                                   mesh::AxisSet(Axis::Context), mesh::AxisSet(Axis::Tensor), mesh::kDp, mesh::kDpShardCp, mesh::kDpCp}) {
    const mesh::MeshContext mesh(sizes, 0);
    const auto groups = mesh.all_groups(axes);
    const bool known = std::ranges::any_of(shown, [&](mesh::AxisSet other) { return mesh.all_groups(other) == groups; });
    if (mesh.size(axes) > 1 && !known) shown.push_back(axes);
  }
  if (sizes.ep > 1) shown.insert(shown.end(), {mesh::AxisSet(Axis::ExpertShard), mesh::AxisSet(Axis::Expert)});
  return shown;
}

/// "(0 1) (2 3) … 16 in all".
std::string listed(const std::vector<std::vector<std::int64_t>>& groups) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), most); ++i) text += fmt::format("{}({})", i == 0 ? "" : " ", fmt::join(groups[i], " "));
  if (groups.size() > most) text += fmt::format(" … {} in all", groups.size());
  return text;
}

void print_mesh(const mesh::MeshSizes& sizes) {
  constexpr std::int64_t most = 16;
  const std::int64_t num_ranks = sizes.world_size();
  fmt::print("\nmesh: {} ranks\n", num_ranks);
  for (const mesh::AxisSet axes : axes_to_show(sizes)) {
    const mesh::MeshContext mesh(sizes, 0);
    fmt::print("  {:<12} {:>4}   groups {}\n", mesh::to_string(axes), mesh.size(axes), listed(mesh.all_groups(axes)));
  }
  for (std::int64_t rank = 0; rank < std::min(num_ranks, most); ++rank) fmt::print("  {}\n", mesh::describe(mesh::MeshContext(sizes, rank)));
  if (num_ranks > most) fmt::print("  … to rank {}; --json lists all\n", num_ranks - 1);
}

/// Of one step, at equal costs of all passes.
double bubble_share(const parallel::PipelinePlan& plan) {
  const pipeline::StagePlacement& placement = plan.stages.placement;
  return plan::simulate(pipeline::lower(plan.schedule, placement), placement).bubble_share();
}

void print_pipeline(const Report& report, const config::Distributed& distributed) {
  const parallel::PipelinePlan& plan = *report.examination.pipeline;
  const config::Pipeline& options = *distributed.pipeline;
  const std::string schedule = options.pp_schedule_csv.empty() ? std::string(config::to_string(options.pp_schedule)) : options.pp_schedule_csv;
  fmt::print("\npipeline: {}, {} microbatches of {}, {:.1f} % bubble\n", schedule, plan.num_microbatches, plural(options.pp_microbatch_size, "row"),
             100.0 * bubble_share(plan));
  for (const std::string& line : parallel::describe(plan.stages, report.examination.plan->spec)) fmt::print("  {}\n", line);
}

OrderedJson to_json(const parallel::PipelinePlan& plan) {
  OrderedJson stages = OrderedJson::array();
  for (std::size_t stage = 0; stage < plan.stages.units.size(); ++stage) {
    const model::UnitRange& units = plan.stages.units[stage];
    stages.push_back({{"pp", plan.stages.placement.rank_of[stage]}, {"first_unit", units.first}, {"end_unit", units.end}});
  }
  return {{"microbatches", plan.num_microbatches}, {"bubble", bubble_share(plan)}, {"stages", std::move(stages)}};
}

OrderedJson to_json(const mesh::MeshSizes& sizes) {
  OrderedJson groups = OrderedJson::object();
  for (const mesh::AxisSet axes : axes_to_show(sizes)) groups[mesh::to_string(axes)] = mesh::MeshContext(sizes, 0).all_groups(axes);
  OrderedJson ranks = OrderedJson::array();
  for (std::int64_t rank = 0; rank < sizes.world_size(); ++rank) {
    const mesh::MeshContext mesh(sizes, rank);
    OrderedJson at = OrderedJson::object();
    for (std::size_t i = 0; i < mesh::kNumAxes; ++i) at[std::string(to_string(static_cast<mesh::Axis>(i)))] = mesh.index(static_cast<mesh::Axis>(i));
    ranks.push_back(std::move(at));
  }
  OrderedJson json{{"world_size", sizes.world_size()}, {"dp", sizes.dp()}};
  for (std::size_t i = 0; i < mesh::kNumAxes; ++i) json[std::string(to_string(static_cast<mesh::Axis>(i)))] = sizes.size(static_cast<mesh::Axis>(i));
  json["groups"] = std::move(groups);
  json["ranks"] = std::move(ranks);
  return json;
}

OrderedJson to_json(const model::MemoryEstimate& m) {
  return {{"weights", m.weights},   {"gradients", m.gradients},     {"optimizer", m.optimizer}, {"gathered", m.gathered},
          {"messages", m.messages}, {"activations", m.activations}, {"staging", m.staging},     {"total", m.total()}};
}

OrderedJson to_json(const Report& report) {
  OrderedJson problems = OrderedJson::array();
  for (const Problem& p : report.examination.problems) problems.push_back({{"where", p.where}, {"what", p.what}, {"rule", p.rule}, {"fix", p.fix}});
  OrderedJson json{{"problems", problems}};
  if (report.examination.mesh) json["mesh"] = to_json(*report.examination.mesh);
  if (report.examination.pipeline) json["pipeline"] = to_json(*report.examination.pipeline);
  if (!report.examination.plan) return json;
  json["model_type"] = report.examination.plan->spec.model_type;
  json["parameters"] = model::parameter_table(report.examination.plan->spec).num_elements();
  json["flops_per_token"] = model::flops_per_token(report.examination.plan->spec, report.length);
  // Of the rank that needs most; in a pipeline, of each too.
  if (!report.memory.empty()) json["memory"] = to_json(*std::ranges::max_element(report.memory, {}, &model::MemoryEstimate::total));
  if (report.memory.size() > 1)
    for (const model::MemoryEstimate& rank : report.memory) json["memory_of_pp_ranks"].push_back(to_json(rank));
  return json;
}

/// For programs: a file that is no recipe is an answer too.
int check_for_programs(const RecipeArguments& arguments, std::int64_t num_ranks) {
  Report report;
  try {
    report = examine(read(arguments), num_ranks);
  } catch (const UserError& error) {
    report.examination.problems = error.problems();
  }
  print_json(to_json(report));
  return report.examination.problems.empty() ? 0 : 2;
}

int check(const RecipeArguments& arguments, std::int64_t num_ranks, bool plans, bool json) {
  if (json) return check_for_programs(arguments, num_ranks);
  const config::LoadedRecipe recipe = read(arguments);
  const Report report = examine(recipe, num_ranks);
  if (!recipe.mistakes.empty()) throw UserError(report.examination.problems);
  fmt::print("{}", config::print_yaml(recipe.tree));
  for (const std::string& note : recipe.notes) log::note(std::string_view(note));
  if (report.examination.mesh && num_ranks > 1) print_mesh(*report.examination.mesh);
  if (report.examination.pipeline) print_pipeline(report, recipe.recipe.distributed);
  if (report.examination.plan) print_model(report);
  if (plans && report.examination.plan && report.examination.mesh) print_plans(report, recipe.recipe.distributed);
  if (!report.examination.problems.empty()) throw UserError(report.examination.problems);
  fmt::print("the recipe can be trained{}; its data were not read: `tessera data inspect` reads them\n",
             num_ranks > 1 ? fmt::format(" by {} ranks", num_ranks) : "");
  return 0;
}

}  // namespace

Command add_check(CLI::App& program) {
  const auto json = std::make_shared<bool>(false), plans = std::make_shared<bool>(false);
  const auto num_ranks = std::make_shared<std::int64_t>(1);
  CLI::App* parser = program.add_subcommand("check", "Show what a recipe resolves to, what it needs, and everything wrong with it");
  const auto arguments = add_recipe_arguments(*parser);
  parser->add_option("--nproc-per-node", *num_ranks, "Check for this many ranks: the mesh, which rank is where, and the memory of each")
      ->capture_default_str()
      ->check(at_least(1));
  parser->add_flag("--plans", *plans, "Show how each module is split over tp, and which ranks hold which experts");
  parser->add_flag("--json", *json, "Print sizes and problems as one JSON document");
  parser->footer(
      "Nothing is allocated and nothing started. Exits with 2 when the recipe cannot be trained.\n\nexample:\n"
      "  tessera check examples/quickstart/finetune.yaml --step_scheduler.local_batch_size 4\n"
      "  tessera check examples/quickstart/finetune.yaml --step_scheduler.local_batch_size 2 --nproc-per-node 4 --distributed.dp_replicate_size 2");
  return {parser, [arguments, num_ranks, plans, json] { return check(*arguments, *num_ranks, *plans, *json); }};
}

}  // namespace tessera::cli
