#pragma once

#include <vector>

#include "tessera/config/registry.h"

/// The registry's content, in three tables. To support something new, flip its entry here.
namespace tessera::config {

std::vector<Target> model_targets();     ///< models, their configs, tokenizers, adapters
std::vector<Target> data_targets();      ///< datasets, dataloaders, collate functions
std::vector<Target> training_targets();  ///< recipe classes, optimizers, losses, distribution

}  // namespace tessera::config
