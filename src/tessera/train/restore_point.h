#pragma once

#include <filesystem>
#include <string>

#include "tessera/comm/communicator.h"
#include "tessera/config/sections/output.h"

namespace tessera::train {

/// Where a run begins.
struct RestorePoint {
  std::filesystem::path path;  ///< a checkpoint or, for weights alone, perhaps a model directory; empty: at the start
  bool weights_alone = false;
  std::string note;  ///< what the recipe does not lead to expect
};

/// What the recipe's restore_from means now, so that the same command continues a run: once checkpoint_dir holds a checkpoint, its newest, with the
/// optimizer; what restore_from names outside it is where the run began. A name inside is gone back to. UserError when it is not there.
RestorePoint find_restore_point(const config::Checkpoint& options);
/// The same as the first rank of the group sees it; the note is logged. A collective: file systems show a change to one rank before another.
RestorePoint agree_on_restore_point(const config::Checkpoint& options, comm::Communicator& group);
/// Whether the recipe, once there are checkpoints in its directory, goes on from the newest.
bool continues_from_newest(const config::Checkpoint& options);

}  // namespace tessera::train
