#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/shortened.h"
#include "tessera/core/text.h"
#include "tessera/data/dataset/records.h"
#include "tessera/formats/decompress.h"

namespace tessera::data {
namespace {

/// A row of fields as RFC 4180 has them: what stands in quotation marks may hold separators, line ends and doubled quotation marks.
class FieldReader {
 public:
  FieldReader(std::string_view row, char separator) : row_(row), separator_(separator) {}
  bool done() const { return done_; }
  /// False where a field's closing quotation mark is missing, or is followed by more than a separator.
  bool next(std::string& field) {
    field.clear();
    const bool fine = at_ < row_.size() && row_[at_] == '"' ? read_quoted(field) : read_plain(field);
    done_ = at_ >= row_.size();
    ++at_;  // the separator
    return fine;
  }

 private:
  bool read_plain(std::string& field) {
    const std::size_t end = std::min(row_.find(separator_, at_), row_.size());
    field = row_.substr(at_, end - at_);
    at_ = end;
    return true;
  }
  bool read_quoted(std::string& field) {
    for (++at_; at_ < row_.size();) {
      const std::size_t mark = std::min(row_.find('"', at_), row_.size());
      field += row_.substr(at_, mark - at_);
      at_ = mark + 1;
      if (mark == row_.size()) return false;
      if (at_ >= row_.size() || row_[at_] == separator_) return true;
      if (row_[at_] != '"') return false;
      field += row_[at_++];
    }
    return false;
  }

  std::string_view row_;
  char separator_;
  std::size_t at_ = 0;
  bool done_ = false;
};

class CsvSource : public RecordSource {
 public:
  explicit CsvSource(const std::filesystem::path& path);
  std::int64_t size() const override { return std::ssize(rows_); }
  OrderedJson record(std::int64_t index) const override;
  std::string where(std::int64_t index) const override { return at_line(row(index).line); }

 private:
  struct Row {
    std::uint64_t offset;
    std::uint32_t size;
    std::uint32_t line;
  };
  const Row& row(std::int64_t index) const { return rows_[static_cast<std::size_t>(index)]; }
  std::string at_line(std::size_t line) const { return fmt::format("{}:{}", name_, line); }
  void index_rows();
  void take_header();
  std::vector<std::string> fields(const Row& row) const;

  std::string name_;
  char separator_;
  MappedFile file_;
  std::vector<Row> rows_;
  std::vector<std::string> columns_;
};

CsvSource::CsvSource(const std::filesystem::path& path)
    : name_(path.string()), separator_(formats::without_compression(path).extension() == ".tsv" ? '\t' : ','), file_(formats::map_text(path)) {
  index_rows();
  if (!rows_.empty()) take_header();
}

/// A line end inside quotation marks belongs to its field.
void CsvSource::index_rows() {
  const std::string_view text = file_.text();
  std::size_t line = 1, begin = text.starts_with("\xEF\xBB\xBF") ? 3 : 0, begin_line = 1;
  bool quoted = false;
  const auto add = [&](std::size_t end) {
    if (end > begin && text[end - 1] == '\r') --end;
    if (end - begin > std::numeric_limits<std::uint32_t>::max())
      throw UserError({at_line(begin_line), "one row is larger than 4 GiB", "a row is one sample", "cut the row into several"});
    if (end > begin) rows_.push_back({begin, static_cast<std::uint32_t>(end - begin), static_cast<std::uint32_t>(begin_line)});
  };
  for (std::size_t at = text.find_first_of("\"\n", begin); at != std::string_view::npos; at = text.find_first_of("\"\n", at + 1)) {
    if (text[at] == '"') {
      quoted = !quoted;
      continue;
    }
    ++line;
    if (quoted) continue;
    add(at);
    begin = at + 1;
    begin_line = line;
  }
  if (quoted)
    throw UserError({at_line(begin_line), "a quotation mark is not closed", "a field in quotation marks ends with one; inside, \"\" stands for \"",
                     "close it, or put the field into quotation marks"});
  add(text.size());
}

void CsvSource::take_header() {
  columns_ = fields(rows_.front());
  std::vector<std::string> sorted = columns_;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw UserError({at_line(rows_.front().line), fmt::format("column '{}' is there twice", *twice), "the first row names the columns",
                     "rename or remove one of them"});
  rows_.erase(rows_.begin());
}

std::vector<std::string> CsvSource::fields(const Row& row) const {
  const std::string_view text = file_.text().substr(row.offset, row.size);
  if (const std::size_t invalid = first_invalid_utf8(text); invalid != std::string_view::npos) {
    throw UserError({at_line(row.line), fmt::format("invalid UTF-8 at byte {} of the file", row.offset + invalid), "data files are UTF-8",
                     "convert the file, for example with iconv"});
  }
  std::vector<std::string> fields;
  std::string field;
  for (FieldReader reader(text, separator_); !reader.done();) {
    if (!reader.next(field))
      throw UserError({at_line(row.line), fmt::format("field {} has a quotation mark in its middle", fields.size() + 1),
                       "a field with quotation marks stands in quotation marks, and doubles those inside",
                       "put the whole field into quotation marks, or remove this one"});
    fields.push_back(field);
  }
  return fields;
}

OrderedJson CsvSource::record(std::int64_t index) const {
  refuse_shortened(file_);
  const std::vector<std::string> values = fields(row(index));
  if (values.size() != columns_.size())
    throw UserError({where(index), fmt::format("the row has {} fields, the first row names {} columns", values.size(), columns_.size()),
                     "every row has a field for each column", "put fields that hold the separator into quotation marks"});
  OrderedJson record = OrderedJson::object();
  for (std::size_t column = 0; column < columns_.size(); ++column)
    record[columns_[column]] = values[column].empty() ? OrderedJson() : OrderedJson(values[column]);
  return record;
}

}  // namespace

std::unique_ptr<RecordSource> open_csv_records(const std::filesystem::path& file) { return std::make_unique<CsvSource>(file); }

}  // namespace tessera::data
