#pragma once

#include <map>
#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/parallel/pipeline/action.h"
#include "tessera/parallel/pipeline/execute/stage.h"
#include "tessera/parallel/pipeline/placement.h"

namespace tessera::pipeline {

/// Two communicators over the ranks of pp, in their order: what goes down the model and what comes back do not wait for each other.
struct Channels {
  comm::Communicator& activations;
  comm::Communicator& gradients;
};

/// A rank's stages, by number.
using Stages = std::map<int, std::unique_ptr<Stage>>;

/// Runs this rank's list of a lowered schedule. Sends and receives begin at their place in the list and run while passes compute; a pass waits for
/// what it needs. Neighbouring stages of one rank need no message. Returns when everything that was sent has left.
///
/// Every rank of the channels calls it with its own list of the same schedule, which must have passed plan::simulate: then no rank can block. Failure
/// when something does not come within the communicators' timeout: each rank that waits says which action it waits for and from which rank, on
/// standard error too, so that all of them are heard before the first failure ends the run.
void execute(const ActionList& actions, const StagePlacement& placement, const Channels& channels, const Stages& stages);

}  // namespace tessera::pipeline
