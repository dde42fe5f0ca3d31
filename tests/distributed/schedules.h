#pragma once

#include <vector>

#include "tessera/config/sections/distributed.h"

namespace tessera::test {

inline const std::vector<config::PipelineSchedule> kAnySchedule = {config::PipelineSchedule::GPipe,
                                                                   config::PipelineSchedule::OneFOneB,
                                                                   config::PipelineSchedule::Interleaved1F1B,
                                                                   config::PipelineSchedule::LoopedBFS,
                                                                   config::PipelineSchedule::InterleavedZeroBubble,
                                                                   config::PipelineSchedule::ZBVZeroBubble,
                                                                   config::PipelineSchedule::DualPipeV};

}  // namespace tessera::test
