#pragma once

#include "tessera/parallel/pipeline/action.h"
#include "tessera/parallel/pipeline/placement.h"

/// From a schedule's F, I, W and B to everything that an executor does. Each pass takes any schedule, leaves its actions in their order and adds its
/// own; none depends on another having run.
namespace tessera::pipeline {

/// Sends right after the pass whose result the neighbour waits for. Receives one computing action before the one that needs the result, so that a
/// message travels while the rank computes. Stages whose neighbour is on the same rank hand over without a message.
///
/// Between two ranks activations and gradients are two channels, each of which delivers in order. The receives of a channel come in the order in
/// which this rank needs them; that it is the order of sending is for simulate to prove.
Schedule add_messages(const Schedule& schedule, const StagePlacement& placement);

/// Gathers a stage's weights one computing action before its first pass, and drops them after the last pass that reads them: its last I or B (weight
/// gradients need inputs and output gradients; a stage that makes an input again with its weights keeps them longer). So weights are gathered once
/// per step.
Schedule add_gather_and_free(const Schedule& schedule);

/// Begins to reduce a stage's gradients right after its last W or B.
Schedule add_gradient_reduction(const Schedule& schedule);

/// All passes.
Schedule lower(const Schedule& schedule, const StagePlacement& placement);

}  // namespace tessera::pipeline
