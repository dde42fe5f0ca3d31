#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "tessera/cli/cli.h"
#include "tessera/config/pipeline_schedule.h"
#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/parallel/pipeline/csv.h"
#include "tessera/parallel/pipeline/lowering.h"
#include "tessera/parallel/pipeline/schedule.h"
#include "tessera/plan/simulate.h"
#include "tessera/plan/timeline.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct SimulateOptions {
  std::string schedule;
  int pp = 1;
  int microbatches = 1;
  int stages_per_rank = 0;  ///< 0: the schedule's own number
  plan::Costs costs;
  fs::path svg, trace;
  bool json = false;
};

/// A schedule to simulate and what it is called.
struct Subject {
  std::string name;
  pipeline::Schedule schedule;
  pipeline::StagePlacement placement;
};

config::PipelineSchedule schedule_named(const std::string& name) {
  if (const auto schedule = config::pipeline_schedule(name)) return *schedule;
  std::vector<std::string> names, current;
  for (const auto& [known, value] : config::pipeline_schedule_names()) {
    names.emplace_back(known);
    if (to_string(value) == known) current.push_back(names.back());
  }
  throw UserError({"--schedule", fmt::format("unknown schedule \"{}\"", name), fmt::format("one of {}, or a .csv file", fmt::join(current, ", ")),
                   did_you_mean(name, names, "choose one of these, or name a .csv file")});
}

Subject by_name(const SimulateOptions& options) {
  const config::PipelineSchedule name = schedule_named(options.schedule);
  const pipeline::ScheduleSize size{
      .num_ranks = options.pp,
      .num_microbatches = options.microbatches,
      .stages_per_rank = options.stages_per_rank > 0 ? options.stages_per_rank : pipeline::default_stages_per_rank(name)};
  ProblemList problems;
  check_size(name, size, "tessera simulate", problems);
  problems.throw_if_any();
  return {std::string(to_string(name)), make_schedule(name, size), placement(name, size)};
}

/// The file's own lists; the options say what they should be.
Subject from_file(const SimulateOptions& options) {
  Subject subject{.name = options.schedule, .schedule = pipeline::read_schedule_csv(options.schedule), .placement = {}};
  subject.placement = pipeline::placement_of(subject.schedule);
  ProblemList problems;
  if (subject.placement.num_ranks != options.pp)
    problems.add({options.schedule, fmt::format("{} lines for --pp {}", subject.placement.num_ranks, options.pp), "every rank has a line",
                  fmt::format("use --pp {}, or correct the file", subject.placement.num_ranks)});
  check_schedule(subject.schedule, subject.placement, options.microbatches, options.schedule, problems);
  problems.throw_if_any();
  return subject;
}

int most_stages(const pipeline::StagePlacement& placement) {
  std::size_t most = 0;
  for (int rank = 0; rank < placement.num_ranks; ++rank) most = std::max(most, placement.stages_of(rank).size());
  return static_cast<int>(most);
}

std::size_t num_actions(const pipeline::Schedule& schedule) {
  std::size_t count = 0;
  for (const pipeline::ActionList& actions : schedule) count += actions.size();
  return count;
}

OrderedJson to_json(const Subject& subject, const SimulateOptions& options, const plan::Simulation& simulation) {
  OrderedJson ranks = OrderedJson::array();
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    const plan::RankTimeline& timeline = simulation.ranks[rank];
    OrderedJson spans = OrderedJson::array();
    for (const plan::Span& span : timeline.spans)
      spans.push_back({{"action", to_string(span.action)}, {"begin_ms", span.begin}, {"end_ms", span.end}});
    ranks.push_back({{"stages", subject.placement.stages_of(static_cast<int>(rank))},
                     {"busy_ms", timeline.busy},
                     {"idle_within_ms", timeline.idle_within},
                     {"peak_activations", timeline.peak_activations},
                     {"spans", spans}});
  }
  return {{"schedule", subject.name},
          {"pp", options.pp},
          {"microbatches", options.microbatches},
          {"stages_per_rank", most_stages(subject.placement)},
          {"costs_ms",
           {{"forward", options.costs.forward},
            {"input_grad", options.costs.input_gradient},
            {"weight_grad", options.costs.weight_gradient},
            {"comm", options.costs.communication}}},
          {"can_block", false},
          {"step_ms", simulation.step_time},
          {"bubble_share", simulation.bubble_share()},
          {"idle_within_ms", simulation.idle_within()},
          {"peak_activations", simulation.peak_activations()},
          {"ranks", ranks}};
}

/// Characters left for a step after "rank 12 ".
int timeline_columns() {
  constexpr int fallback = 120, label = 8;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 40;
  return (known ? size.ws_col : fallback) - label;
}

void print_text(const Subject& subject, const SimulateOptions& options, const plan::Simulation& simulation, std::size_t actions) {
  const int stages = most_stages(subject.placement);
  const plan::Costs& costs = options.costs;
  fmt::print("schedule     {}: {} with {} each, {}\n", subject.name, plural(options.pp, "rank"), plural(stages, "stage"),
             plural(options.microbatches, "microbatch"));
  fmt::print("costs        of a stage: forward {:g}, input gradient {:g}, weight gradient {:g}; communication {:g} ms\n", costs.forward,
             costs.input_gradient, costs.weight_gradient, costs.communication);
  fmt::print("blocking     none: all {} actions run, whatever each takes\n", actions);
  fmt::print("step         {:g} ms\n", simulation.step_time);
  fmt::print("bubble       {:.2f} % of the step; {:g} ms at most between a rank's first and last action\n", 100 * simulation.bubble_share(),
             simulation.idle_within());
  fmt::print("activations  {} at most (a microbatch on a stage, from its F to its B or W); per rank:", simulation.peak_activations());
  for (const plan::RankTimeline& rank : simulation.ranks) fmt::print(" {}", rank.peak_activations);
  const bool colours = ::isatty(STDOUT_FILENO) == 1;
  fmt::print("\n\n{}", plan::draw_text(simulation, timeline_columns(), colours));
}

int simulate(const SimulateOptions& options) {
  const Subject subject = options.schedule.ends_with(".csv") ? from_file(options) : by_name(options);
  const pipeline::Schedule lowered = pipeline::lower(subject.schedule, subject.placement);
  const plan::Simulation simulation = plan::simulate(lowered, subject.placement, options.costs);
  const auto operations = posix_file_operations();
  if (!options.svg.empty()) replace_file(*operations, options.svg, plan::draw_svg(simulation));
  if (!options.trace.empty()) replace_file(*operations, options.trace, plan::trace(simulation));
  if (options.json) {
    print_json(to_json(subject, options, simulation));
  } else {
    print_text(subject, options, simulation, num_actions(lowered));
  }
  return 0;
}

/// Sizes beyond these would take minutes and gigabytes to draw.
CLI::Validator size_up_to(int most) { return CLI::Range(1, most); }

}  // namespace

Command add_simulate(CLI::App& program) {
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App* parser = program.add_subcommand(
      "simulate", "Run a pipeline schedule without a model: whether ranks can block, step time, bubble, stored activations, a timeline");
  parser->add_option("--schedule", options->schedule, "A name as in distributed.pipeline.pp_schedule, or a .csv file as in pp_schedule_csv")
      ->required();
  parser->add_option("--pp", options->pp, "Ranks of the pipeline")->required()->check(size_up_to(1024));
  parser->add_option("--microbatches", options->microbatches, "Microbatches of a step")->required()->check(size_up_to(4096));
  parser->add_option("--stages-per-rank", options->stages_per_rank, "Stages of each rank (default: 1 for gpipe and 1f1b, otherwise 2)")
      ->check(size_up_to(64));
  const CLI::Range milliseconds(0.0, 1e9);
  parser->add_option("--forward", options->costs.forward, "Milliseconds of a stage's forward pass")->capture_default_str()->check(milliseconds);
  parser->add_option("--input-grad", options->costs.input_gradient, "Milliseconds of its input gradient")->capture_default_str()->check(milliseconds);
  parser->add_option("--weight-grad", options->costs.weight_gradient, "Milliseconds of its weight gradients")
      ->capture_default_str()
      ->check(milliseconds);
  parser->add_option("--comm", options->costs.communication, "Milliseconds of a message, which travels while ranks compute")
      ->capture_default_str()
      ->check(milliseconds);
  parser->add_option("--svg", options->svg, "Write the timeline as a picture");
  parser->add_option("--trace", options->trace, "Write it in the trace event format, for Perfetto and chrome://tracing");
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer("example:\n  tessera simulate --schedule zbv_zero_bubble --pp 4 --microbatches 8 --comm 0.1 --svg zbv.svg");
  return {parser, [options] { return simulate(*options); }};
}

}  // namespace tessera::cli
