#include "tessera/data/dataset/json_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::data {
namespace {

/// parse_json counts lines from the start of what it is given: turns "file:LINE:k" into the line of the file.
Json parse_record(std::string_view text, const std::string& file, std::size_t line) {
  const std::string where = fmt::format("{}:{}", file, line);
  try {
    return parse_json(text, where);
  } catch (const UserError& error) {
    Problem problem = error.problems().front();
    if (!problem.where.starts_with(where + ":")) throw;
    problem.where = fmt::format("{}:{}", file, line + std::stoul(problem.where.substr(where.size() + 1)) - 1);
    throw UserError(problem);
  }
}

bool is_space(char character) { return character == ' ' || character == '\t' || character == '\r' || character == '\n'; }

std::size_t skip_spaces(std::string_view text, std::size_t at, std::size_t& line) {
  for (; at < text.size() && is_space(text[at]); ++at) line += text[at] == '\n';
  return at;
}

/// The byte after the value that begins at `at`: its matching bracket, or for a scalar the next comma or bracket. Counts the lines passed. npos when
/// the text ends first.
std::size_t skip_value(std::string_view text, std::size_t at, std::size_t& line) {
  int depth = 0;
  bool in_string = false;
  for (; at < text.size(); ++at) {
    const char character = text[at];
    line += character == '\n';
    if (in_string) {
      if (character == '\\') ++at;
      in_string = character != '"';
    } else if (character == '"') {
      in_string = true;
    } else if (character == '{' || character == '[') {
      ++depth;
    } else if (character == '}' || character == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    } else if (character == ',' && depth == 0) {
      return at;
    }
  }
  return std::string_view::npos;
}

std::size_t without_byte_order_mark(std::string_view text) { return text.starts_with("\xEF\xBB\xBF") ? 3 : 0; }

}  // namespace

JsonRecords::JsonRecords(const std::vector<std::filesystem::path>& files) {
  for (const auto& path : files) {
    files_.emplace_back(path);
    const auto file = static_cast<std::uint32_t>(files_.size() - 1);
    const std::string_view text = files_.back().text();
    std::size_t line = 1;
    const std::size_t first = skip_spaces(text, without_byte_order_mark(text), line);
    if (first < text.size() && text[first] == '[') {
      index_array(file);
    } else {
      index_lines(file);
    }
  }
}

void JsonRecords::add(std::uint32_t file, std::size_t begin, std::size_t end, std::size_t line) {
  if (end - begin > std::numeric_limits<std::uint32_t>::max()) {
    throw UserError({fmt::format("{}:{}", files_[file].path().string(), line), "one record is larger than 4 GiB", "a record is one sample", ""});
  }
  spans_.push_back({begin, static_cast<std::uint32_t>(end - begin), static_cast<std::uint32_t>(line), file});
}

void JsonRecords::index_lines(std::uint32_t file) {
  const std::string_view text = files_[file].text();
  std::size_t line = 1;
  for (std::size_t begin = without_byte_order_mark(text); begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view content = text.substr(begin, end - begin);
    if (!std::all_of(content.begin(), content.end(), is_space)) add(file, begin, end, line);
    begin = end + 1;
  }
}

void JsonRecords::index_array(std::uint32_t file) {
  const std::string_view text = files_[file].text();
  const auto broken = [&](std::size_t line, const char* what) {
    return UserError(
        {fmt::format("{}:{}", files_[file].path().string(), line), std::string("not valid JSON: ") + what, "the file is an array of objects", ""});
  };
  std::size_t line = 1;
  std::size_t at = skip_spaces(text, without_byte_order_mark(text), line);
  at = skip_spaces(text, at + 1, line);
  while (at < text.size() && text[at] != ']') {
    const std::size_t begin_line = line;
    const std::size_t end = skip_value(text, at, line);
    if (end == std::string_view::npos) throw broken(begin_line, "the file ends inside this element");
    if (end == at) throw broken(line, "an element is missing");
    add(file, at, end, begin_line);
    at = skip_spaces(text, end, line);
    if (at < text.size() && text[at] == ',') {
      at = skip_spaces(text, at + 1, line);
      if (at < text.size() && text[at] == ']') throw broken(line, "an element is missing after the comma");
    } else if (at < text.size() && text[at] != ']') {
      throw broken(line, "expected ',' or ']' after an element");
    }
  }
  if (at >= text.size()) throw broken(line, "the array does not end");
  at = skip_spaces(text, at + 1, line);
  if (at < text.size()) throw broken(line, "text follows the array");
}

std::string JsonRecords::where(std::int64_t index) const { return fmt::format("{}:{}", files_[span(index).file].path().string(), span(index).line); }

Json JsonRecords::record(std::int64_t index) const {
  const Span& at = span(index);
  const std::string_view text = files_[at.file].text().substr(at.offset, at.size);
  if (const std::size_t invalid = first_invalid_utf8(text); invalid != std::string_view::npos) {
    throw UserError({where(index), fmt::format("invalid UTF-8 at byte {} of the file", at.offset + invalid), "data files are UTF-8",
                     "convert the file, for example with iconv"});
  }
  Json record = parse_record(text, files_[at.file].path().string(), at.line);
  if (!record.is_object()) {
    throw UserError({where(index), fmt::format("holds a JSON {}, not an object", record.type_name()),
                     "every line of JSONL, or element of the array, is one object", ""});
  }
  return record;
}

void JsonRecords::keep(std::int64_t begin, std::int64_t end) {
  spans_.erase(spans_.begin() + end, spans_.end());
  spans_.erase(spans_.begin(), spans_.begin() + begin);
}

std::string JsonRecords::description() const {
  std::vector<std::string> names;
  for (const MappedFile& file : files_) names.push_back(file.path().string());
  if (names.size() > 3) return fmt::format("{}, {} and {} more files", names[0], names[1], names.size() - 2);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<std::string> text_column(const Json& record, const std::string& column, const std::string& where) {
  const auto found = record.find(column);
  if (found == record.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) {
    throw UserError(
        {where, fmt::format("column '{}' holds a JSON {}, not text", column, found->type_name()), "the columns of a text dataset hold strings", ""});
  }
  return found->get<std::string>();
}

void throw_missing_column(const Json& record, const std::string& column, const std::string& where) {
  std::vector<std::string> existing;
  for (const auto& [key, value] : record.items()) existing.push_back(key);
  throw UserError({where, fmt::format("there is no column '{}'", column), fmt::format("the columns here are {}", fmt::join(existing, ", ")),
                   did_you_mean(column, existing)});
}

}  // namespace tessera::data
