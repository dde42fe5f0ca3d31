#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/shortened.h"
#include "tessera/core/text.h"
#include "tessera/data/dataset/records.h"
#include "tessera/data/tokenizer/unicode.h"
#include "tessera/formats/decompress.h"

namespace tessera::data {
namespace {

/// parse_ordered_json counts lines from the start of what it is given: turns "file:LINE:k" into the line of the file.
OrderedJson parse_record(std::string_view text, const std::string& file, std::size_t line) {
  const std::string where = fmt::format("{}:{}", file, line);
  try {
    return parse_ordered_json(text, where);
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

constexpr std::size_t kNotPlain = std::string_view::npos;

/// Four hexadecimal digits; −1 for anything else.
int code_unit_at(std::string_view text, std::size_t at) {
  int unit = 0;
  if (at + 4 > text.size()) return -1;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 4, unit, 16);
  return error == std::errc() && end == text.data() + at + 4 ? unit : -1;
}

/// Appends the character that the escape after the backslash at `at` stands for. Returns the byte after it, or kNotPlain.
std::size_t read_escape(std::string_view text, std::size_t at, std::string& value) {
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (at + 1 >= text.size()) return kNotPlain;
  if (const std::size_t letter = kLetters.find(text[at + 1]); letter != std::string_view::npos) {
    value += kMeanings[letter];
    return at + 2;
  }
  const int unit = text[at + 1] == 'u' ? code_unit_at(text, at + 2) : -1;
  if (unit < 0xD800 || unit > 0xDFFF) {
    if (unit < 0) return kNotPlain;
    append_utf8(value, static_cast<char32_t>(unit));
    return at + 6;
  }
  const int low = text.substr(std::min(at + 6, text.size())).starts_with("\\u") ? code_unit_at(text, at + 8) : -1;
  if (unit > 0xDBFF || low < 0xDC00 || low > 0xDFFF) return kNotPlain;
  append_utf8(value, static_cast<char32_t>(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)));
  return at + 12;
}

/// The string whose first quote is at `at`. Returns the byte after its last quote, or kNotPlain.
std::size_t read_string(std::string_view text, std::size_t at, std::string& value) {
  value.clear();
  for (++at; at < text.size();) {
    const std::size_t end = text.find_first_of("\"\\", at);
    if (end == std::string_view::npos) break;
    value.append(text, at, end - at);
    if (text[end] == '"') return end + 1;
    at = read_escape(text, end, value);
    if (at == kNotPlain) break;
  }
  return kNotPlain;
}

/// The strings (or null) of some members of an object that is known to be valid JSON with each key once. False where it is otherwise, or where
/// another kind of value stands in one of them: whoever asked then reads the whole object, which tells what is wrong.
bool read_members(std::string_view text, std::span<const std::string> names, std::vector<std::optional<std::string>>& values) {
  std::size_t line = 0, at = skip_spaces(text, 0, line);
  std::string key, value;
  values.assign(names.size(), std::nullopt);
  if (at >= text.size() || text[at] != '{') return false;
  do {
    at = skip_spaces(text, at + 1, line);
    if (at >= text.size() || text[at] != '"') return false;
    at = read_string(text, at, key);
    if (at == kNotPlain) return false;
    at = skip_spaces(text, at, line);
    if (at >= text.size() || text[at] != ':') return false;
    at = skip_spaces(text, at + 1, line);
    const auto wanted = std::ranges::find(names, key);
    if (wanted == names.end()) {
      at = skip_value(text, at, line);
    } else if (text.substr(std::min(at, text.size())).starts_with("null")) {
      at += 4;
    } else {
      if (at >= text.size() || text[at] != '"') return false;
      at = read_string(text, at, value);
      for (std::size_t name = 0; name < names.size(); ++name)
        if (names[name] == key) values[name] = value;
    }
    if (at == kNotPlain) return false;
    at = skip_spaces(text, at, line);
  } while (at < text.size() && text[at] == ',');
  return at < text.size() && text[at] == '}';
}

class JsonSource : public RecordSource {
 public:
  explicit JsonSource(const std::filesystem::path& path);
  std::int64_t size() const override { return static_cast<std::int64_t>(spans_.size()); }
  OrderedJson record(std::int64_t index) const override;
  std::string where(std::int64_t index) const override { return at_line(span(index).line); }
  std::vector<std::optional<std::string>> texts(std::int64_t index, std::span<const std::string> columns) const override;

 private:
  struct Span {
    std::uint64_t offset;
    std::uint32_t size;
    std::uint32_t line;
  };
  const Span& span(std::int64_t index) const { return spans_[static_cast<std::size_t>(index)]; }
  std::string at_line(std::size_t line) const { return fmt::format("{}:{}", name_, line); }
  void index_lines();
  void index_array();
  bool index_one_object();
  void add(std::size_t begin, std::size_t end, std::size_t line);

  std::string name_;
  MappedFile file_;
  std::vector<Span> spans_;
};

JsonSource::JsonSource(const std::filesystem::path& path) : name_(path.string()), file_(formats::map_text(path)) {
  const std::string_view text = file_.text();
  std::size_t line = 1;
  const std::size_t first = skip_spaces(text, without_byte_order_mark(text), line);
  if (first < text.size() && text[first] == '[') {
    index_array();
  } else if (formats::without_compression(path).extension() != ".json" || !index_one_object()) {
    index_lines();
  }
}

void JsonSource::add(std::size_t begin, std::size_t end, std::size_t line) {
  if (end - begin > std::numeric_limits<std::uint32_t>::max()) {
    throw UserError({at_line(line), "one record is larger than 4 GiB", "a record is one sample", "cut the record into several"});
  }
  spans_.push_back({begin, static_cast<std::uint32_t>(end - begin), static_cast<std::uint32_t>(line)});
}

void JsonSource::index_lines() {
  const std::string_view text = file_.text();
  std::size_t line = 1;
  for (std::size_t begin = without_byte_order_mark(text); begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view content = text.substr(begin, end - begin);
    if (!std::all_of(content.begin(), content.end(), is_space)) add(begin, end, line);
    begin = end + 1;
  }
}

void JsonSource::index_array() {
  const std::string_view text = file_.text();
  const auto broken = [&](std::size_t line, const char* what) {
    return UserError({at_line(line), std::string("not valid JSON: ") + what, "the file is an array of objects",
                      "correct the text there; where the file was cut short, copy it again"});
  };
  std::size_t line = 1;
  std::size_t at = skip_spaces(text, without_byte_order_mark(text), line);
  at = skip_spaces(text, at + 1, line);
  while (at < text.size() && text[at] != ']') {
    const std::size_t begin_line = line;
    const std::size_t end = skip_value(text, at, line);
    if (end == std::string_view::npos) throw broken(begin_line, "the file ends inside this element");
    if (end == at) throw broken(line, "an element is missing");
    add(at, end, begin_line);
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

/// A .json file that is one object, over as many lines as it likes.
bool JsonSource::index_one_object() {
  const std::string_view text = file_.text();
  std::size_t line = 1;
  const std::size_t begin = skip_spaces(text, without_byte_order_mark(text), line);
  const std::size_t begin_line = line;
  const std::size_t end = skip_value(text, begin, line);
  if (end == std::string_view::npos || end == begin || skip_spaces(text, end, line) < text.size()) return false;
  add(begin, end, begin_line);
  return true;
}

OrderedJson JsonSource::record(std::int64_t index) const {
  refuse_shortened(file_);
  const Span& at = span(index);
  const std::string_view text = file_.text().substr(at.offset, at.size);
  if (const std::size_t invalid = first_invalid_utf8(text); invalid != std::string_view::npos) {
    throw UserError({where(index), fmt::format("invalid UTF-8 at byte {} of the file", at.offset + invalid), "data files are UTF-8",
                     "convert the file, for example with iconv"});
  }
  OrderedJson record = parse_record(text, name_, at.line);
  if (!record.is_object()) {
    throw UserError({where(index), fmt::format("holds a JSON {}, not an object", record.type_name()),
                     "every line of JSONL, or element of the array, is one object", kCorrectRecord});
  }
  return record;
}

std::vector<std::optional<std::string>> JsonSource::texts(std::int64_t index, std::span<const std::string> columns) const {
  refuse_shortened(file_);
  std::vector<std::optional<std::string>> values;
  if (read_members(file_.text().substr(span(index).offset, span(index).size), columns, values)) return values;
  return RecordSource::texts(index, columns);
}

}  // namespace

std::unique_ptr<RecordSource> open_json_records(const std::filesystem::path& file) { return std::make_unique<JsonSource>(file); }

}  // namespace tessera::data
