#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

/// The files that `paths` (files, globs, or folders, whose data files in them and below are meant) name, globs and folders in alphabetical order. Of
/// a folder, those that name `split` ("train", "train[:10]") are taken when any file names a split. UserError, all at once, for what is missing.
std::vector<std::filesystem::path> find_data_files(const std::vector<std::string>& paths, std::string_view split = "");

/// Whether a file holds data, by its ending: Parquet, Arrow, JSONL, JSON, CSV, TSV, text, NanoGPT's .bin; JSON, tables and text may be compressed.
bool is_data_file(const std::filesystem::path& file);
/// Those of the names whose path names the split, when any path names a split (train, validation, valid, val, dev, test).
std::vector<std::string> files_of_split(const std::vector<std::string>& names, std::string_view split);

/// Samples [begin, end).
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
/// What the slice of a split keeps of `size` samples: "train" all, "train[:128]", "train[10:20]", "train[-5:]", "train[:10%]" as Hugging Face
/// datasets read them (percentages rounded to the nearest). The name before the bracket chooses nothing in a local file. `limit`, when given, is
/// the most that are kept.
IndexRange slice_of_split(std::string_view split, std::optional<std::int64_t> limit, std::int64_t size);

/// Whether the file holds records (JSONL, JSON, CSV, TSV, Parquet, Arrow); any other file is one text.
bool holds_records(const std::filesystem::path& file);
/// A file of plain text. UserError for invalid UTF-8, with the byte.
std::string read_plain_text(const std::filesystem::path& file);

}  // namespace tessera::data
