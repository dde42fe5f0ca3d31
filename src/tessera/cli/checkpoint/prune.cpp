#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/links.h"
#include "tessera/cli/checkpoint/commands.h"
#include "tessera/core/error.h"

namespace tessera::cli::checkpoint_commands {
namespace {

namespace fs = std::filesystem;

struct PruneOptions {
  fs::path directory;
  std::int64_t keep = 1;
  bool json = false;
};

int prune(const PruneOptions& options) {
  if (!fs::is_directory(options.directory))
    throw UserError({options.directory.string(), "no such directory", "", "name the checkpoint_dir of a run"});
  // A directory that is no run's stays as it is: the lock leaves a file.
  std::optional<checkpoint::DirectoryLock> lock;
  if (checkpoint::holds_checkpoints(options.directory)) lock.emplace(options.directory);
  const auto operations = posix_file_operations();
  checkpoint::remove_leftovers(*operations, options.directory);
  checkpoint::repair_links(*operations, options.directory);
  OrderedJson removed = OrderedJson::array();
  for (const fs::path& path : checkpoint::prune(*operations, options.directory, options.keep)) removed.push_back(path.string());
  OrderedJson kept = OrderedJson::array();
  for (const checkpoint::CheckpointEntry& entry : checkpoint::list_checkpoints(options.directory)) kept.push_back(entry.path.string());
  if (options.json) {
    print_json({{"removed", removed}, {"kept", kept}});
    return 0;
  }
  for (const auto& path : removed) fmt::print("removed {}\n", path.get<std::string>());
  fmt::print("{} removed, {} kept\n", removed.size(), kept.size());
  return 0;
}

}  // namespace

Command add_prune(CLI::App& parent) {
  const auto options = std::make_shared<PruneOptions>();
  CLI::App* parser = parent.add_subcommand("prune", "Remove old checkpoints of a run");
  parser->add_option("DIR", options->directory, "The run's checkpoint_dir; no run may be writing there")->required();
  parser->add_option("--keep", options->keep, "How many of the newest stay; what a link points at stays too")->required()->check(at_least(1));
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer("Also removes what interrupted saves left behind.\n\nexample:\n  tessera checkpoint prune quickstart/checkpoints --keep 2");
  return {parser, [options] { return prune(*options); }};
}

}  // namespace tessera::cli::checkpoint_commands
