#include "tessera/data/dataset/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/data/sampler.h"
#include "tessera/formats/decompress.h"

namespace tessera::data {
namespace {

std::unique_ptr<RecordSource> open_records(const std::filesystem::path& file) {
  if (file.extension() == ".parquet") return open_parquet_records(file);
  if (file.extension() == ".arrow") return open_arrow_records(file);
  const std::filesystem::path extension = formats::without_compression(file).extension();
  if (extension == ".csv" || extension == ".tsv") return open_csv_records(file);
  return open_json_records(file);
}

}  // namespace

Records::Records(const std::vector<std::filesystem::path>& files) : files_(files) {
  for (const auto& file : files) {
    first_.push_back(end_);
    sources_.push_back(open_records(file));
    end_ += sources_.back()->size();
  }
  first_.push_back(end_);
}

Records::Place Records::place(std::int64_t index) const {
  std::int64_t at = begin_ + index;
  if (!order_.empty()) at = order_[static_cast<std::size_t>(at)];
  const auto file = static_cast<std::size_t>(std::ranges::upper_bound(first_, at) - first_.begin() - 1);
  return {sources_[file].get(), at - first_[file]};
}

OrderedJson Records::record(std::int64_t index) const {
  const Place at = place(index);
  return at.source->record(at.index);
}

std::string Records::where(std::int64_t index) const {
  const Place at = place(index);
  return at.source->where(at.index);
}

std::vector<std::optional<std::string>> RecordSource::texts(std::int64_t index, std::span<const std::string> columns) const {
  const OrderedJson found = record(index);
  std::vector<std::optional<std::string>> texts;
  for (const std::string& column : columns) texts.push_back(text_column(found, column, where(index)));
  return texts;
}

std::vector<std::optional<std::string>> Records::texts(std::int64_t index, std::span<const std::string> columns) const {
  const Place at = place(index);
  return at.source->texts(at.index, columns);
}

void Records::keep(std::int64_t begin, std::int64_t end) {
  end_ = begin_ + end;
  begin_ += begin;
}

void Records::keep_only(const std::vector<std::int64_t>& indices) {
  std::vector<std::int64_t> order;
  order.reserve(indices.size());
  for (const std::int64_t index : indices) order.push_back(order_.empty() ? begin_ + index : order_[static_cast<std::size_t>(begin_ + index)]);
  order_ = std::move(order);
  begin_ = 0;
  end_ = std::ssize(order_);
}

void Records::shuffle(std::uint64_t seed) {
  if (size() == 0) return;
  const EpochOrder order(size(), true, seed, 0);
  std::vector<std::int64_t> indices;
  for (std::int64_t position = 0; position < size(); ++position) indices.push_back(order[position]);
  keep_only(indices);
}

std::string Records::description() const {
  std::vector<std::string> names;
  for (const auto& file : files_) names.push_back(file.string());
  if (names.size() > 3) return fmt::format("{}, {} and {} more files", names[0], names[1], names.size() - 2);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<std::string> text_column(const OrderedJson& record, const std::string& column, const std::string& where) {
  const auto found = record.find(column);
  if (found == record.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) {
    throw UserError({where, fmt::format("column '{}' holds a JSON {}, not text", column, found->type_name()),
                     "the columns of a text dataset hold strings", "write it as text, or name another column"});
  }
  return found->get<std::string>();
}

std::string needed_text(const OrderedJson& record, const std::string& column, const std::string& where) {
  std::optional<std::string> text = text_column(record, column, where);
  if (!text) throw_missing_column(record, column, where);
  return *std::move(text);
}

std::string stripped(std::string_view text) {
  constexpr std::string_view spaces = " \t\r\n\f\v";
  const auto begin = text.find_first_not_of(spaces);
  return begin == std::string_view::npos ? "" : std::string(text.substr(begin, text.find_last_not_of(spaces) - begin + 1));
}

void refuse_empty(const Records& records, const std::string& why) {
  if (records.size() > 0) return;
  throw UserError({records.description(), "the dataset is empty" + why, "training needs at least one sample",
                   "check the dataset's path, split and limit_dataset_samples"});
}

void throw_missing_column(const OrderedJson& record, const std::string& column, const std::string& where) {
  std::vector<std::string> existing;
  for (const auto& [key, value] : record.items()) existing.push_back(key);
  throw UserError({where, fmt::format("there is no column '{}'", column), fmt::format("the columns here are {}", fmt::join(existing, ", ")),
                   did_you_mean(column, existing, "name a column that is there, or choose another dataset")});
}

}  // namespace tessera::data
