#include "tessera/checkpoint/consolidate.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <vector>

#include "tessera/cli/checkpoint/commands.h"
#include "tessera/cli/dtype_option.h"
#include "tessera/comm/initialize.h"
#include "tessera/core/text.h"
#include "tessera/formats/huggingface.h"

namespace tessera::cli::checkpoint_commands {
namespace {

namespace fs = std::filesystem;

struct ConsolidateOptions {
  fs::path checkpoint;
  fs::path output;
  std::string dtype = "auto";
  std::string verify = "full";
  std::uint64_t max_shard_size = formats::kDefaultMaxShardSize;
  bool json = false;
};

int consolidate(const ConsolidateOptions& options) {
  const auto backend = comm::initialize_distributed();
  std::vector<std::int64_t> members(static_cast<std::size_t>(backend->world_size()));
  std::iota(members.begin(), members.end(), 0);
  const auto world = backend->communicator(members, "world");
  const checkpoint::Manifest manifest = checkpoint::read_manifest(options.checkpoint);
  checkpoint::ConsolidateOptions how{
      .max_shard_size = options.max_shard_size, .dtype = storage_dtype(options.dtype), .verify = verify_of(options.verify)};
  {
    ProgressBar bar("consolidating", checkpoint::bytes_to_consolidate(manifest, how, world->size()), ProgressBar::Unit::Bytes);
    how.progress = shown_on(bar);
    checkpoint::consolidate(*posix_file_operations(), options.checkpoint, options.output, how, *world);
  }
  const std::uint64_t bytes = num_bytes(manifest.model, how.dtype);
  if (options.json)
    print_json({{"destination", options.output.string()}, {"tensors", manifest.model.size()}, {"bytes", bytes}});
  else
    fmt::print("{}: {} tensors, {}\n", options.output.string(), manifest.model.size(), human_bytes(static_cast<double>(bytes)));
  return 0;
}

}  // namespace

Command add_consolidate(CLI::App& parent) {
  const auto options = std::make_shared<ConsolidateOptions>();
  CLI::App* parser = parent.add_subcommand("consolidate", "Write a checkpoint's weights as a Hugging Face directory");
  parser->add_option("CHECKPOINT", options->checkpoint, "A checkpoint: epoch_E_step_S, or a link to it")->required();
  parser->add_option("OUT", options->output, "The directory to write; it must not exist")->required();
  parser->add_option("--dtype", options->dtype, "float32, bfloat16, float16, or auto: as saved")->capture_default_str();
  parser->add_option("--max-shard-size", options->max_shard_size, "Bytes of a weight file")->check(at_least(1))->capture_default_str();
  add_verify_option(*parser, options->verify);
  parser->add_flag("--json", options->json, "Print one JSON document");
  const auto ranks = add_rank_arguments(*parser);
  parser->footer(
      "With several ranks each writes an equal part of the bytes.\n\nexample:\n  tessera checkpoint consolidate quickstart/checkpoints/LATEST "
      "facts-model --dtype bfloat16");
  return {parser, [options] { return consolidate(*options); }, ranks};
}

}  // namespace tessera::cli::checkpoint_commands
