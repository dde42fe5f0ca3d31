#include "tessera/checkpoint/links.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/core/error.h"
#include "tessera/core/logging.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

/// Nothing when there was no measurement, or when the manifest cannot be read.
std::optional<double> metric_of(const fs::path& checkpoint) try { return comparable_metric(read_manifest(checkpoint)); } catch (const UserError&) {
  return std::nullopt;
}

std::optional<double> lowest_metric(const fs::path& directory) {
  const std::optional<fs::path> target = link_target(directory, kLowestValidation);
  return target ? metric_of(*target) : std::nullopt;
}

struct Lowest {
  fs::path checkpoint;
  double metric = 0.0;
};

/// The first that has the lowest metric.
std::optional<Lowest> find_lowest(const fs::path& directory) {
  std::optional<Lowest> lowest;
  for (const CheckpointEntry& entry : list_checkpoints(directory)) {
    const std::optional<double> metric = metric_of(entry.path);
    if (metric && (!lowest || *metric < lowest->metric)) lowest = {entry.path, *metric};
  }
  return lowest;
}

std::string flaw_of(const std::optional<fs::path>& target) try {
  if (!target) return ", which is not a complete checkpoint";
  read_manifest(*target);
  return "";
} catch (const UserError&) {
  return ", whose manifest is damaged";
}

void move_link(FileOperations& operations, const fs::path& directory, const char* link, const fs::path& checkpoint) {
  std::error_code none;
  const fs::path before = fs::read_symlink(directory / link, none);
  if (!none)
    log::warning("{}: {} led to {}{}; it now leads to {}", directory.string(), link, before.string(), flaw_of(link_target(directory, link)),
                 checkpoint.filename().string());
  replace_symlink(operations, checkpoint.filename(), directory / link);
}

}  // namespace

std::optional<double> comparable_metric(const Manifest& manifest) {
  const std::optional<double>& metric = manifest.validation_metric;
  if (!metric || std::isnan(*metric)) return std::nullopt;
  const bool lower_elsewhere = manifest.best_validation && manifest.best_validation->metric < *metric;
  return lower_elsewhere && is_checkpoint(manifest.best_validation->checkpoint) ? std::nullopt : metric;
}

void refuse_blocked_links(const fs::path& directory) {
  for (const char* const link : {kLatest, kLowestValidation})
    for (const char* const suffix : {"", ".new"}) {  // replace_symlink makes the new link beside the old one
      const fs::path path = directory / (std::string(link) + suffix);
      const fs::file_status status = fs::symlink_status(path);
      if (!fs::exists(status) || fs::is_symlink(status)) continue;
      throw UserError(Problem{path.string(), fs::is_directory(status) ? "a directory stands where a link goes" : "a file stands where a link goes",
                              fmt::format("{} and {} are links to checkpoints", kLatest, kLowestValidation), "move it away or rename it"});
    }
}

void repair_links(FileOperations& operations, const fs::path& directory) {
  const std::vector<CheckpointEntry> entries = list_checkpoints(directory);
  if (entries.empty()) return;
  const std::optional<Lowest> lowest = find_lowest(directory);
  const std::optional<double> linked = lowest_metric(directory);
  const bool latest_is_behind = link_target(directory, kLatest) != latest_checkpoint(directory);
  const bool lowest_is_behind = lowest && (!linked || lowest->metric < *linked);
  if (latest_is_behind) move_link(operations, directory, kLatest, entries.back().path);
  if (lowest_is_behind) move_link(operations, directory, kLowestValidation, lowest->checkpoint);
  if (latest_is_behind || lowest_is_behind) operations.sync_directory(directory);
}

void switch_links(FileOperations& operations, const fs::path& directory, const fs::path& saved, std::optional<double> metric) {
  replace_symlink(operations, saved.filename(), directory / kLatest);
  if (const std::optional<double> lowest = lowest_metric(directory)) {
    if (metric && *metric < *lowest) replace_symlink(operations, saved.filename(), directory / kLowestValidation);
  } else if (metric || fs::is_symlink(fs::symlink_status(directory / kLowestValidation))) {
    if (const std::optional<Lowest> found = find_lowest(directory)) move_link(operations, directory, kLowestValidation, found->checkpoint);
  }
  operations.sync_directory(directory);
}

}  // namespace tessera::checkpoint
