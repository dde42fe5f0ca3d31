#include "tessera/data/dataset/files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cctype>
#include <cfenv>
#include <cmath>

#include "tessera/config/split.h"
#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/text.h"
#include "tessera/formats/decompress.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> matches;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) matches.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return matches;
}

/// What stands for the same split in names of files.
const std::vector<std::vector<std::string_view>>& split_words() {
  static const std::vector<std::vector<std::string_view>> words = {{"train", "training"}, {"validation", "valid", "val", "dev"}, {"test"}};
  return words;
}

/// Whether the word stands in the path between anything but letters.
bool says(std::string_view path, std::string_view word) {
  const auto letter = [&](std::size_t at) { return at < path.size() && std::isalpha(static_cast<unsigned char>(path[at])) != 0; };
  for (std::size_t at = path.find(word); at != std::string_view::npos; at = path.find(word, at + 1))
    if (!(at > 0 && letter(at - 1)) && !letter(at + word.size())) return true;
  return false;
}

bool says_any(std::string_view path, const std::vector<std::string_view>& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return says(path, word); });
}

/// Paths are compared below the folder, whose own name may say anything.
void add_folder(const fs::path& folder, std::string_view split, std::vector<fs::path>& files, ProblemList& problems) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink))
    if (entry.is_regular_file() && is_data_file(entry.path()))
      names.push_back(fs::relative(entry.path().parent_path(), folder) / entry.path().filename());
  std::ranges::sort(names);
  names = files_of_split(names, split);
  if (names.empty()) {
    problems.add(
        {folder.string(), split.empty() ? "holds no data files" : fmt::format("holds no data files of split '{}'", split),
         "data files are Parquet, Arrow, JSONL, JSON, CSV, TSV and text",
         split.empty() ? "check the path, or download the dataset first" : "check the path, or choose a split that the files' names contain"});
  }
  for (const std::string& name : names) files.push_back((folder / name).lexically_normal());
}

void add_files(const std::string& path, std::string_view split, std::vector<fs::path>& files, ProblemList& problems) {
  if (fs::is_regular_file(path)) {
    files.emplace_back(path);
  } else if (fs::is_directory(path)) {
    add_folder(path, split, files, problems);
  } else if (const auto matches = matches_of(path); !matches.empty()) {
    files.insert(files.end(), matches.begin(), matches.end());
  } else {
    problems.add({path, "no such file", "relative paths start at the working directory", "check the path, or download the dataset first"});
  }
}

UserError bad_split(std::string_view split) {
  return UserError({"", fmt::format("split: '{}' is not a split", split), "a split is a name with an optional slice",
                    "for example train, train[:128], train[:10%]"});
}

/// One end of a slice of `size` samples.
std::int64_t boundary(const config::SliceEnd& at, std::int64_t size) {
  std::int64_t value = at.value;
  // nearbyint rounds halves to even, as Python's round does.
  if (at.percent) value = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(value) * static_cast<double>(size) / 100.0));
  if (value < 0) value += size;
  return std::clamp<std::int64_t>(value, 0, size);
}

}  // namespace

std::vector<fs::path> find_data_files(const std::vector<std::string>& paths, std::string_view split) {
  ProblemList problems;
  std::vector<fs::path> files;
  if (paths.empty()) problems.add({"", "no data files are named", "a dataset needs at least one file", "give the dataset a path"});
  for (const std::string& path : paths) add_files(path, split, files, problems);
  problems.throw_if_any();
  return files;
}

bool is_data_file(const fs::path& file) {
  // Other files in a data folder of Hugging Face's.
  for (const char* const other : {"dataset_info.json", "dataset_infos.json", "state.json", "dataset_dict.json", "README.txt"})
    if (file.filename() == other) return false;
  const fs::path extension = formats::without_compression(file).extension();
  return holds_records(file) || extension == ".txt" || file.extension() == ".bin";
}

std::vector<std::string> files_of_split(const std::vector<std::string>& names, std::string_view split) {
  const std::string_view name = split.substr(0, split.find('['));
  if (name.empty()) return names;
  std::vector<std::string_view> wanted = {name};
  for (const auto& words : split_words())
    if (std::ranges::find(words, name) != words.end()) wanted = words;
  const bool any_says = std::ranges::any_of(
      names, [&](const std::string& file) { return std::ranges::any_of(split_words(), [&](const auto& words) { return says_any(file, words); }); });
  if (!any_says && !std::ranges::any_of(names, [&](const std::string& file) { return says(file, name); })) return names;
  std::vector<std::string> kept;
  for (const std::string& file : names)
    if (says_any(file, wanted)) kept.push_back(file);
  return kept;
}

IndexRange slice_of_split(std::string_view split, std::optional<std::int64_t> limit, std::int64_t size) {
  const auto slice = config::parse_slice(split);
  if (!slice) throw bad_split(split);
  IndexRange range{boundary(slice->begin, size), boundary(slice->end, size)};
  range.end = std::max(range.begin, range.end);
  if (limit) range.end = std::min(range.end, range.begin + std::max<std::int64_t>(0, *limit));
  return range;
}

bool holds_records(const fs::path& file) {
  const fs::path extension = formats::without_compression(file).extension();
  return extension == ".jsonl" || extension == ".json" || extension == ".ndjson" || extension == ".csv" || extension == ".tsv" ||
         extension == ".parquet" || extension == ".arrow";
}

std::string read_plain_text(const fs::path& path) {
  std::string text(formats::map_text(path).text());
  if (const std::size_t invalid = first_invalid_utf8(text); invalid != std::string::npos) {
    throw UserError({path.string(), fmt::format("invalid UTF-8 at byte {} of the file", invalid), "data files are UTF-8",
                     "convert the file, for example with iconv"});
  }
  return text;
}

}  // namespace tessera::data
