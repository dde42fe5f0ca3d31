#include "tessera/data/dataset/files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cfenv>
#include <charconv>
#include <cmath>

#include "tessera/core/error.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

bool looks_like_hub_name(const std::string& path) {
  const auto slash = path.find('/');
  const bool one_slash = slash != std::string::npos && slash > 0 && path.find('/', slash + 1) == std::string::npos && slash + 1 < path.size();
  const bool bare_word = slash == std::string::npos && path.find('.') == std::string::npos;
  return (one_slash || bare_word) && path.front() != '.' && path.front() != '~' && fs::path(path).extension().empty();
}

Problem missing(const std::string& path) {
  if (looks_like_hub_name(path)) {
    return {"", fmt::format("'{}' is a Hub name and not on disk", path), "downloading data sets is not supported yet",
            "give the path of a local JSONL, JSON or text file"};
  }
  return {path, "no such file", "relative paths start at the working directory", ""};
}

std::vector<fs::path> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> matches;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) matches.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return matches;
}

void add_files(const std::string& path, std::vector<fs::path>& files, ProblemList& problems) {
  if (fs::is_regular_file(path)) {
    files.emplace_back(path);
  } else if (fs::is_directory(path)) {
    problems.add(
        {path, "is a directory", "a directory of data files is not supported yet", "name the files, or use a pattern: '" + path + "/*.jsonl'"});
  } else if (const auto matches = matches_of(path); !matches.empty()) {
    files.insert(files.end(), matches.begin(), matches.end());
  } else {
    problems.add(missing(path));
  }
}

void refuse_other_formats(const fs::path& file, ProblemList& problems) {
  for (const char* extension : {".parquet", ".arrow", ".gz", ".zst", ".csv"}) {
    if (file.extension() == extension) {
      problems.add({file.string(), fmt::format("{} files are not supported yet", extension), "local data is JSONL, JSON or plain text",
                    "convert the file to JSONL"});
    }
  }
}

UserError bad_split(std::string_view split) {
  return UserError({"", fmt::format("split: '{}' is not a split", split), "a split is a name with an optional slice",
                    "for example train, train[:128], train[:10%]"});
}

/// One end of a slice; `otherwise` when it is left out.
std::int64_t boundary(std::string_view text, std::int64_t size, std::int64_t otherwise, std::string_view split) {
  if (text.empty()) return otherwise;
  const bool percent = text.back() == '%';
  if (percent) text.remove_suffix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) throw bad_split(split);
  // nearbyint rounds halves to even, as Python's round does.
  if (percent) value = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(value) * static_cast<double>(size) / 100.0));
  if (value < 0) value += size;
  return std::clamp<std::int64_t>(value, 0, size);
}

}  // namespace

std::vector<fs::path> find_data_files(const std::vector<std::string>& paths) {
  ProblemList problems;
  std::vector<fs::path> files;
  if (paths.empty()) problems.add({"", "no data files are named", "a dataset needs at least one file", ""});
  for (const std::string& path : paths) add_files(path, files, problems);
  for (const fs::path& file : files) refuse_other_formats(file, problems);
  problems.throw_if_any();
  return files;
}

IndexRange slice_of_split(std::string_view split, std::optional<std::int64_t> limit, std::int64_t size) {
  IndexRange range{0, size};
  if (const auto open = split.find('['); open != std::string_view::npos) {
    const auto colon = split.find(':', open);
    if (split.back() != ']' || colon == std::string_view::npos || split.find('+') != std::string_view::npos) throw bad_split(split);
    range.begin = boundary(split.substr(open + 1, colon - open - 1), size, 0, split);
    range.end = boundary(split.substr(colon + 1, split.size() - colon - 2), size, size, split);
    range.end = std::max(range.begin, range.end);
  }
  if (limit) range.end = std::min(range.end, range.begin + std::max<std::int64_t>(0, *limit));
  return range;
}

}  // namespace tessera::data
