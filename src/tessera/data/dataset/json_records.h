#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/file.h"
#include "tessera/core/json.h"

namespace tessera::data {

/// The objects of JSONL files (one a line, blank lines ignored) and JSON files (an array of objects), in the order of the files. The files are
/// mapped; only where each record lies is held in memory (24 bytes a record). `record` and `where` may be called from many threads at once.
class JsonRecords {
 public:
  /// Finds the records. UserError for a missing file and for an array that does not close; the records themselves are parsed when asked for.
  explicit JsonRecords(const std::vector<std::filesystem::path>& files);

  std::int64_t size() const { return static_cast<std::int64_t>(spans_.size()); }
  /// Parses one record. UserError (file:line) when it is invalid UTF-8 (with the byte offset in the file), not JSON, or not an object.
  Json record(std::int64_t index) const;
  /// "file:line" of its first character.
  std::string where(std::int64_t index) const;
  /// Bytes of JSON: a bound on the text in it.
  std::int64_t bytes(std::int64_t index) const { return span(index).size; }
  /// Keeps records [begin, end) only.
  void keep(std::int64_t begin, std::int64_t end);
  /// The files' names, for messages.
  std::string description() const;

 private:
  struct Span {
    std::uint64_t offset;
    std::uint32_t size;
    std::uint32_t line;
    std::uint32_t file;
  };
  const Span& span(std::int64_t index) const { return spans_[static_cast<std::size_t>(index)]; }
  void index_lines(std::uint32_t file);
  void index_array(std::uint32_t file);
  void add(std::uint32_t file, std::size_t begin, std::size_t end, std::size_t line);

  std::vector<MappedFile> files_;
  std::vector<Span> spans_;
};

/// The text in a record's column, nullopt when it is null or missing. UserError naming `where`, the column and what is there instead for anything but
/// text.
std::optional<std::string> text_column(const Json& record, const std::string& column, const std::string& where);
/// The error for a column that a record lacks: names the columns that exist.
[[noreturn]] void throw_missing_column(const Json& record, const std::string& column, const std::string& where);

}  // namespace tessera::data
