#include "tessera/train/restore_point.h"

#include <fmt/format.h>

#include <string_view>

#include "tessera/checkpoint/directory.h"
#include "tessera/comm/values.h"
#include "tessera/core/json.h"
#include "tessera/core/logging.h"

namespace fs = std::filesystem;

namespace tessera::train {
namespace {

bool lies_in(const fs::path& path, const fs::path& directory) {
  const fs::path relative = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(directory));
  return !relative.empty() && *relative.begin() != "..";
}

/// A path to somewhere else, which may be gone by now.
bool is_outside(const std::string& restore_from, const fs::path& directory) {
  if (restore_from == checkpoint::kLatest || restore_from == checkpoint::kLowestValidation) return false;
  const fs::path path = restore_from;
  if (path.is_relative() && fs::exists(directory / path)) return false;
  return (path.has_parent_path() || fs::is_directory(path)) && !lies_in(path, directory);
}

RestorePoint continued(const config::Checkpoint& options) {
  RestorePoint point{checkpoint::resolve_restore_from(options.checkpoint_dir, checkpoint::kLatest), false, ""};
  if (is_outside(options.restore_from, options.checkpoint_dir))
    point.note = fmt::format("the run that began at checkpoint.restore_from ({}) goes on from what it saved since in {}", options.restore_from,
                             options.checkpoint_dir);
  else if (!options.restore_optimizer)
    point.note = "checkpoint.restore_optimizer: false has no effect without restore_from: the run goes on with its optimizer";
  return point;
}

}  // namespace

RestorePoint find_restore_point(const config::Checkpoint& options) {
  const bool has_begun = !checkpoint::list_checkpoints(options.checkpoint_dir).empty();
  if (has_begun && continues_from_newest(options)) return continued(options);
  if (options.restore_from.empty()) return {};
  return {checkpoint::resolve_restore_from(options.checkpoint_dir, options.restore_from, !options.restore_optimizer), !options.restore_optimizer, ""};
}

bool continues_from_newest(const config::Checkpoint& options) {
  if (options.restore_from == checkpoint::kLatest) return options.restore_optimizer;
  return options.restore_from.empty() || is_outside(options.restore_from, options.checkpoint_dir);
}

RestorePoint agree_on_restore_point(const config::Checkpoint& options, comm::Communicator& group) {
  Json found;
  comm::together(group, [&] {
    if (group.rank() != 0) return;
    const RestorePoint point = find_restore_point(options);
    found = {{"path", point.path.string()}, {"weights_alone", point.weights_alone}, {"note", point.note}};
  });
  const Json agreed = parse_json(comm::gather(group, found.dump()).front(), "the first rank's answer");
  RestorePoint point{agreed.at("path").get<std::string>(), agreed.at("weights_alone").get<bool>(), agreed.at("note").get<std::string>()};
  if (!point.note.empty()) log::note(std::string_view(point.note));
  return point;
}

}  // namespace tessera::train
