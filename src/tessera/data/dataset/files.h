#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

/// The files that `paths` (files or globs) name, globs in alphabetical order. UserError, all at once, for what is missing or a directory,
/// and for a Hub name that is not on disk.
std::vector<std::filesystem::path> find_data_files(const std::vector<std::string>& paths);

/// Samples [begin, end).
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
/// What the slice of a split keeps of `size` samples: "train" all, "train[:128]", "train[10:20]", "train[-5:]", "train[:10%]" as Hugging Face
/// datasets read them (percentages rounded to the nearest). The name before the bracket chooses nothing in a local file. `limit`, when given, keeps
/// at most so many.
IndexRange slice_of_split(std::string_view split, std::optional<std::int64_t> limit, std::int64_t size);

}  // namespace tessera::data
