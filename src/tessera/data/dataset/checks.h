#pragma once

#include <string>

#include "tessera/data/batch.h"
#include "tessera/data/dataset/context.h"

namespace tessera::data {

/// UserError naming `where` when the sample has more positions than the model, or a token outside its vocabulary.
void check_sample_fits(const Sample& sample, const DatasetContext& context, const std::string& where);

}  // namespace tessera::data
