#pragma once

#include <memory>
#include <string>

#include "tessera/config/sections/data.h"
#include "tessera/core/error.h"
#include "tessera/data/dataset/context.h"
#include "tessera/data/dataset/dataset.h"

namespace tessera::data {

/// Builds the dataset a recipe describes, reading and checking its files. `section` ("dataset", "validation_dataset") begins the messages that
/// have no file of their own. UserError for every mistake in the data, and for kinds and options that are not supported yet.
std::unique_ptr<Dataset> build_dataset(const config::Dataset& options, const DatasetContext& context, const std::string& section);

/// UserError where rows of seq_length tokens (padded ones, windows of text) are longer than the model's context (0: any length), whatever the data.
void check_sequence_length(const config::Dataset& options, std::int64_t context_length);

/// The error with the recipe's section before messages that name no file.
UserError in_section(const UserError& error, const std::string& section);

}  // namespace tessera::data
