#pragma once

#include <string>

#include "tessera/config/sections/data.h"

namespace tessera::data {

/// What kind of dataset a file or Megatron prefix holds, by its ending and the columns of its first record, as a recipe would say it: conversations,
/// SQuAD, HellaSwag, xLAM, pairs of question and answer under their usual names, text, Megatron, NanoGPT. UserError naming the columns when none
/// fits.
config::Dataset guess_dataset(const std::string& path);

}  // namespace tessera::data
