#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "tessera/cli/checkpoint/commands.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::cli::checkpoint_commands {
namespace {

namespace fs = std::filesystem;

struct Options {
  fs::path checkpoint;
  bool sizes = false;
  bool json = false;
};

int verify(const Options& options) {
  const checkpoint::Manifest manifest = checkpoint::read_manifest(options.checkpoint);
  const checkpoint::Verify what = options.sizes ? checkpoint::Verify::Sizes : checkpoint::Verify::Full;
  std::vector<Problem> problems;
  {
    ProgressBar bar("verifying", num_bytes(manifest), ProgressBar::Unit::Bytes);
    problems = checkpoint::verify_files(options.checkpoint, manifest, what, {}, shown_on(bar));
  }
  if (options.json) {
    OrderedJson list = OrderedJson::array();
    for (const Problem& problem : problems) list.push_back({{"file", problem.where}, {"problem", problem.what}});
    print_json({{"whole", problems.empty()}, {"files", manifest.files.size()}, {"bytes", num_bytes(manifest)}, {"problems", list}});
    return problems.empty() ? 0 : 2;
  }
  if (!problems.empty()) throw UserError(problems);
  fmt::print("{}: whole, {} files, {}{}\n", options.checkpoint.string(), manifest.files.size(), human_bytes(static_cast<double>(num_bytes(manifest))),
             options.sizes ? " (sizes only)" : "");
  return 0;
}

}  // namespace

Command add_verify(CLI::App& parent) {
  const auto options = std::make_shared<Options>();
  CLI::App* parser = parent.add_subcommand("verify", "Check that every file of a checkpoint holds what was saved, byte for byte");
  parser->add_option("CHECKPOINT", options->checkpoint, "A checkpoint: epoch_E_step_S, or a link to it")->required();
  parser->add_flag("--sizes", options->sizes, "Only that every file is there and has its size: reads no contents");
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer("Exits with 2 when something is missing or damaged.\n\nexample:\n  tessera checkpoint verify quickstart/checkpoints/LATEST");
  return {parser, [options] { return verify(*options); }};
}

}  // namespace tessera::cli::checkpoint_commands
