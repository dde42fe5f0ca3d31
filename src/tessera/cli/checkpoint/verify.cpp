#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "tessera/cli/checkpoint/commands.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::cli::checkpoint_commands {
namespace {

namespace fs = std::filesystem;

struct VerifyOptions {
  fs::path checkpoint;
  bool sizes = false;
  bool json = false;
};

OrderedJson to_json(const std::vector<Problem>& problems) {
  OrderedJson list = OrderedJson::array();
  for (const Problem& problem : problems) list.push_back({{"file", problem.where}, {"problem", problem.what}});
  return list;
}

/// Files of model/consolidated/ that are not what the save wrote say nothing against the checkpoint.
void explain(std::vector<Problem>& problems) {
  for (Problem& problem : problems) {
    problem.rule = "no run reads model/consolidated/, a copy for other programs: the checkpoint itself is whole";
    problem.fix = "remove model/consolidated/ and run model/consolidate.sh; a copy in another dtype belongs elsewhere";
  }
}

int verify(const VerifyOptions& options) {
  const checkpoint::Manifest manifest = checkpoint::read_manifest(options.checkpoint);
  const checkpoint::Verify what = options.sizes ? checkpoint::Verify::Sizes : checkpoint::Verify::Full;
  std::vector<Problem> own;
  std::vector<Problem> consolidated;
  {
    ProgressBar bar("verifying", num_bytes(manifest), ProgressBar::Unit::Bytes);
    const auto is_own = [](const std::string& file) { return !checkpoint::is_consolidated(file); };
    own = checkpoint::verify_files(options.checkpoint, manifest, what, is_own, shown_on(bar));
    consolidated = checkpoint::verify_files(options.checkpoint, manifest, what, checkpoint::is_consolidated, shown_on(bar));
  }
  if (options.json) {
    print_json({{"whole", own.empty()},
                {"files", manifest.files.size()},
                {"bytes", num_bytes(manifest)},
                {"problems", to_json(own)},
                {"consolidated_problems", to_json(consolidated)}});
    return own.empty() && consolidated.empty() ? 0 : 2;
  }
  if (own.empty()) {
    fmt::print("{}: whole, {} files, {}{}\n", options.checkpoint.string(), manifest.files.size(),
               human_bytes(static_cast<double>(num_bytes(manifest))), options.sizes ? " (sizes only)" : "");
    explain(consolidated);
  }
  own.insert(own.end(), consolidated.begin(), consolidated.end());
  if (!own.empty()) throw UserError(own);
  return 0;
}

}  // namespace

Command add_verify(CLI::App& parent) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App* parser = parent.add_subcommand("verify", "Check that every file of a checkpoint holds what was saved, byte for byte");
  parser->add_option("CHECKPOINT", options->checkpoint, "A checkpoint: epoch_E_step_S, or a link to it")->required();
  parser->add_flag("--sizes", options->sizes, "Only that every file is there and has its size: reads no contents");
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer(
      "Exits with 2 when something is missing or damaged, also in model/consolidated/, which is reported apart: no run reads it.\n\nexample:\n  "
      "tessera checkpoint verify quickstart/checkpoints/LATEST");
  return {parser, [options] { return verify(*options); }};
}

}  // namespace tessera::cli::checkpoint_commands
