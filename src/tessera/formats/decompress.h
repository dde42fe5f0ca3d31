#pragma once

#include <filesystem>

#include "tessera/core/file.h"

namespace tessera::formats {

/// The path without ".gz" or ".zst": what says which format is inside.
std::filesystem::path without_compression(const std::filesystem::path& path);

/// A file of text mapped; .gz (one member or several) and .zst are first decompressed into a temporary file that has no name and goes away with the
/// mapping, because records are read in any order. The temporary file lies in $TMPDIR or /tmp; its path is not the file's own. UserError for a file
/// that is damaged or ends too early, Failure when the temporary file cannot be written.
MappedFile map_text(const std::filesystem::path& path);

}  // namespace tessera::formats
