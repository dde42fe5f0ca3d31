#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json.h"

namespace tessera::data {

/// The records of one file, reachable in any order. Immutable: every member may be called from many threads at once.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  virtual std::int64_t size() const = 0;
  /// An object whose keys keep the file's order. UserError, saying where, when it cannot be read.
  virtual OrderedJson record(std::int64_t index) const = 0;
  /// "file:line", or "file: row N".
  virtual std::string where(std::int64_t index) const = 0;
  /// What `text_column` finds in each of these columns of a record that has been read before: a source may then find them without reading the rest
  /// of the record again.
  virtual std::vector<std::optional<std::string>> texts(std::int64_t index, std::span<const std::string> columns) const;
};

/// The objects of a JSONL file (one a line, blank lines ignored) or of a JSON file (an array of objects, or one object). The file is mapped; only
/// where each record lies is held in memory (20 bytes a record). UserError for a missing file and for an array that does not close; the records
/// themselves are parsed when asked for, and then refused (file:line) when they are invalid UTF-8 (with the byte offset), not JSON, or not an object.
std::unique_ptr<RecordSource> open_json_records(const std::filesystem::path& file);

/// The rows of a table of comma-separated values (.tsv: by tabs), as RFC 4180 writes them; the first row names the columns. Every value is text, an
/// empty one null. The file is mapped. UserError for a quotation mark that is not closed; rows are read when asked for, and then refused (file:line)
/// when they are invalid UTF-8 or have another number of fields.
std::unique_ptr<RecordSource> open_csv_records(const std::filesystem::path& file);

/// The rows of an Arrow file or stream (Hugging Face datasets keeps the latter). The file is mapped, its rows stay there.
std::unique_ptr<RecordSource> open_arrow_records(const std::filesystem::path& file);
/// The rows of a Parquet file, unpacked row group by row group into a nameless temporary Arrow file ($TMPDIR or /tmp), which is mapped.
std::unique_ptr<RecordSource> open_parquet_records(const std::filesystem::path& file);

/// The records of several files, one after the other, or some of them.
class Records {
 public:
  explicit Records(const std::vector<std::filesystem::path>& files);
  std::int64_t size() const { return end_ - begin_; }
  OrderedJson record(std::int64_t index) const;
  std::string where(std::int64_t index) const;
  std::vector<std::optional<std::string>> texts(std::int64_t index, std::span<const std::string> columns) const;
  /// Keeps records [begin, end) only.
  void keep(std::int64_t begin, std::int64_t end);
  /// Keeps these records only, in this order.
  void keep_only(const std::vector<std::int64_t>& indices);
  /// Puts them into an order that is a function of their number and the seed.
  void shuffle(std::uint64_t seed);
  /// The files' names, for messages.
  std::string description() const;

 private:
  struct Place {
    const RecordSource* source;
    std::int64_t index;
  };
  Place place(std::int64_t index) const;

  std::vector<std::filesystem::path> files_;
  std::vector<std::shared_ptr<const RecordSource>> sources_;
  std::vector<std::int64_t> first_;  ///< [files + 1]: records before each file
  std::vector<std::int64_t> order_;  ///< empty: as they lie in the files
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

/// The remedy for a record that cannot be trained on.
inline constexpr const char* kCorrectRecord = "correct or remove this record";
/// UserError when there are no records; `why` continues "the dataset is empty".
void refuse_empty(const Records& records, const std::string& why = "");
/// The text in a record's column, nullopt when it is null or missing. UserError naming `where`, the column and what is there instead for anything but
/// text.
std::optional<std::string> text_column(const OrderedJson& record, const std::string& column, const std::string& where);
/// The same for a column that must be there.
std::string needed_text(const OrderedJson& record, const std::string& column, const std::string& where);
/// Without the white space (of ASCII) around it.
std::string stripped(std::string_view text);
/// The error for a column that a record lacks: names the columns that exist.
[[noreturn]] void throw_missing_column(const OrderedJson& record, const std::string& column, const std::string& where);

}  // namespace tessera::data
