#pragma once

#include <filesystem>
#include <optional>

#include "tessera/checkpoint/manifest.h"
#include "tessera/core/file.h"

/// The links of a checkpoint directory: LATEST to the newest checkpoint, LOWEST_VAL to the one of the lowest validation metric. A link moves after
/// its checkpoint is in place, so a run that ends in between leaves it behind.
namespace tessera::checkpoint {

/// The metric by which a checkpoint may become LOWEST_VAL: nothing without a measurement, or while its run has a better one, be it in the directory
/// that it was begun from.
std::optional<double> comparable_metric(const Manifest& manifest);

/// UserError when something that is no link has the name of one: every save would meet it.
void refuse_blocked_links(const std::filesystem::path& directory);

/// Moves both links to where they belong, with a warning for each that was elsewhere. Reads every manifest; a checkpoint whose manifest is damaged
/// has no metric. Nobody else may write in the directory.
void repair_links(FileOperations& operations, const std::filesystem::path& directory);

/// Points LATEST at a checkpoint that has just been saved, and LOWEST_VAL too when no other metric is as low. Where the manifest behind LOWEST_VAL is
/// damaged or gone, the lowest of the others takes its place.
void switch_links(FileOperations& operations, const std::filesystem::path& directory, const std::filesystem::path& saved,
                  std::optional<double> metric);

}  // namespace tessera::checkpoint
