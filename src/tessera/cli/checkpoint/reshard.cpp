#include "tessera/checkpoint/reshard.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "tessera/cli/checkpoint/commands.h"
#include "tessera/core/environment.h"
#include "tessera/train/reshard_layout.h"

namespace tessera::cli::checkpoint_commands {
namespace {

namespace fs = std::filesystem;

struct ReshardOptions {
  fs::path checkpoint;
  fs::path output;
  std::int64_t num_ranks = 1;
  std::string verify = "full";
  bool json = false;
};

int reshard(const ReshardOptions& options, const std::vector<std::string>& overrides) {
  const checkpoint::ReshardLayout layout = train::reshard_layout(options.checkpoint, overrides, options.num_ranks, process_environment());
  const checkpoint::Verify verify = verify_of(options.verify);
  const checkpoint::Manifest manifest = checkpoint::read_manifest(options.checkpoint);
  {
    ProgressBar bar("resharding", checkpoint::bytes_to_reshard(manifest, verify), ProgressBar::Unit::Bytes);
    checkpoint::reshard(*posix_file_operations(), options.checkpoint, options.output, layout, {.verify = verify, .progress = shown_on(bar)});
  }
  const std::uint64_t bytes = num_bytes(checkpoint::read_manifest(options.output));
  if (options.json)
    print_json({{"destination", options.output.string()}, {"layout", OrderedJson(layout.description)}, {"bytes", bytes}});
  else
    fmt::print("{}: {}\n", options.output.string(), describe_layout(layout.description));
  return 0;
}

}  // namespace

Command add_reshard(CLI::App& parent) {
  const auto options = std::make_shared<ReshardOptions>();
  CLI::App* parser = parent.add_subcommand("reshard", "Write a checkpoint as another number of ranks, or another strategy, would have saved it");
  parser->add_option("CHECKPOINT", options->checkpoint, "A checkpoint: epoch_E_step_S, or a link to it")->required();
  parser->add_option("OUT", options->output, "The checkpoint to write; it must not exist")->required();
  parser->add_option("--nproc", options->num_ranks, "Number of ranks")->required()->check(at_least(1));
  add_verify_option(*parser, options->verify);
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->allow_extras();
  parser->footer(
      "The strategy is that of the recipe in the checkpoint; --distributed.KEY VALUE changes it. Training needs none of this: it reads any "
      "layout.\n\n"
      "example:\n  tessera checkpoint reshard quickstart/checkpoints/LATEST resharded --nproc 4 --distributed.strategy fsdp2");
  return {parser, [options, parser] { return reshard(*options, parser->remaining()); }};
}

}  // namespace tessera::cli::checkpoint_commands
