#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>

#include <algorithm>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/shortened.h"
#include "tessera/core/temporary.h"
#include "tessera/core/text.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

/// Arrow's messages may end with a line end.
[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw UserError({path.string(), "cannot read the file: " + stripped(why),
                   "a .parquet file, or Arrow's own format as Hugging Face datasets keeps it",
                   "the file may be truncated or damaged: download or copy it again"});
}
void check(const fs::path& path, const arrow::Status& status) {
  if (!status.ok()) refuse(path, status.message());
}
template <class Value>
Value check(const fs::path& path, arrow::Result<Value> result) {
  if (!result.ok()) refuse(path, result.status().message());
  return std::move(result).ValueUnsafe();
}

/// One value of a column as JSON. What JSON has no word for becomes text; bytes that are not UTF-8 are refused by `record`.
OrderedJson value_at(const arrow::Array& array, std::int64_t row);

template <class List>
OrderedJson list_at(const List& list, std::int64_t row) {
  OrderedJson items = OrderedJson::array();
  for (std::int64_t item = list.value_offset(row); item < list.value_offset(row) + list.value_length(row); ++item)
    items.push_back(value_at(*list.values(), item));
  return items;
}

OrderedJson struct_at(const arrow::StructArray& array, std::int64_t row) {
  OrderedJson object = OrderedJson::object();
  for (int field = 0; field < array.num_fields(); ++field) object[array.struct_type()->field(field)->name()] = value_at(*array.field(field), row);
  return object;
}

template <class Array>
OrderedJson text_at(const arrow::Array& array, std::int64_t row) {
  return std::string(static_cast<const Array&>(array).GetView(row));
}
template <class Array>
OrderedJson number_at(const arrow::Array& array, std::int64_t row) {
  return static_cast<const Array&>(array).Value(row);
}

OrderedJson value_at(const arrow::Array& array, std::int64_t row) {
  if (array.IsNull(row)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return number_at<arrow::BooleanArray>(array, row);
    case arrow::Type::INT8:
      return number_at<arrow::Int8Array>(array, row);
    case arrow::Type::INT16:
      return number_at<arrow::Int16Array>(array, row);
    case arrow::Type::INT32:
      return number_at<arrow::Int32Array>(array, row);
    case arrow::Type::INT64:
      return number_at<arrow::Int64Array>(array, row);
    case arrow::Type::UINT8:
      return number_at<arrow::UInt8Array>(array, row);
    case arrow::Type::UINT16:
      return number_at<arrow::UInt16Array>(array, row);
    case arrow::Type::UINT32:
      return number_at<arrow::UInt32Array>(array, row);
    case arrow::Type::UINT64:
      return number_at<arrow::UInt64Array>(array, row);
    case arrow::Type::FLOAT:
      return number_at<arrow::FloatArray>(array, row);
    case arrow::Type::DOUBLE:
      return number_at<arrow::DoubleArray>(array, row);
    case arrow::Type::STRING:
      return text_at<arrow::StringArray>(array, row);
    case arrow::Type::LARGE_STRING:
      return text_at<arrow::LargeStringArray>(array, row);
    case arrow::Type::STRING_VIEW:
      return text_at<arrow::StringViewArray>(array, row);
    case arrow::Type::BINARY:
      return text_at<arrow::BinaryArray>(array, row);
    case arrow::Type::LIST:
      return list_at(static_cast<const arrow::ListArray&>(array), row);
    case arrow::Type::LARGE_LIST:
      return list_at(static_cast<const arrow::LargeListArray&>(array), row);
    case arrow::Type::FIXED_SIZE_LIST:
      return list_at(static_cast<const arrow::FixedSizeListArray&>(array), row);
    case arrow::Type::STRUCT:
      return struct_at(static_cast<const arrow::StructArray&>(array), row);
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
      return value_at(*dictionary.dictionary(), dictionary.GetValueIndex(row));
    }
    default: {
      const auto scalar = array.GetScalar(row);
      return scalar.ok() ? OrderedJson((*scalar)->ToString()) : OrderedJson();
    }
  }
}

bool is_utf8(const OrderedJson& value) {
  if (value.is_string()) return first_invalid_utf8(value.get_ref<const std::string&>()) == std::string_view::npos;
  return !value.is_structured() || std::ranges::all_of(value, [](const OrderedJson& item) { return is_utf8(item); });
}

/// Both of Arrow's formats: the file, which ends with an index, and the stream, which Hugging Face datasets writes.
std::vector<std::shared_ptr<arrow::RecordBatch>> read_batches(const fs::path& path, const MappedFile& file) {
  const auto mapped = std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(file.text()));
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  if (const auto reader = arrow::ipc::RecordBatchFileReader::Open(mapped); reader.ok()) {
    for (int index = 0; index < (*reader)->num_record_batches(); ++index) batches.push_back(check(path, (*reader)->ReadRecordBatch(index)));
  } else {
    check(path, mapped->Seek(0));
    const auto stream = check(path, arrow::ipc::RecordBatchStreamReader::Open(mapped));
    for (auto batch = check(path, stream->Next()); batch != nullptr; batch = check(path, stream->Next())) batches.push_back(batch);
  }
  for (const auto& batch : batches) check(path, batch->Validate());
  return batches;
}

class ArrowSource : public RecordSource {
 public:
  /// The rows of `mapped`, which is the file `name` itself or what was unpacked from it.
  ArrowSource(std::string name, MappedFile mapped) : name_(std::move(name)), mapped_(std::move(mapped)), batches_(read_batches(name_, mapped_)) {
    first_.push_back(0);
    for (const auto& batch : batches_) first_.push_back(first_.back() + batch->num_rows());
  }
  std::int64_t size() const override { return first_.back(); }
  std::string where(std::int64_t index) const override { return fmt::format("{}: row {}", name_, index); }
  OrderedJson record(std::int64_t index) const override {
    refuse_shortened(mapped_);
    const auto which = static_cast<std::size_t>(std::ranges::upper_bound(first_, index) - first_.begin() - 1);
    const arrow::RecordBatch& batch = *batches_[which];
    OrderedJson record = OrderedJson::object();
    for (int column = 0; column < batch.num_columns(); ++column) {
      OrderedJson value = value_at(*batch.column(column), index - first_[which]);
      if (!is_utf8(value))
        throw UserError({where(index), fmt::format("column '{}' holds invalid UTF-8", batch.column_name(column)), "data files are UTF-8",
                         "write the file again with its text as UTF-8"});
      record[batch.column_name(column)] = std::move(value);
    }
    return record;
  }

 private:
  std::string name_;
  MappedFile mapped_;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;  ///< views of it, where it is not compressed
  std::vector<std::int64_t> first_;                           ///< [batches + 1]: rows before each
};

/// Parquet's row groups, one after the other, as an Arrow file: pages of Parquet can only be decoded as a whole, and records are read in any order.
void unpack_parquet(const fs::path& path, const std::string& unpacked) {
  const auto input = check(path, arrow::io::MemoryMappedFile::Open(path.string(), arrow::io::FileMode::READ));
  const auto reader = check(path, parquet::arrow::OpenFile(input, arrow::default_memory_pool()));
  const auto batches = check(path, reader->GetRecordBatchReader());
  const auto output = check(path, arrow::io::FileOutputStream::Open(unpacked));
  const auto writer = check(path, arrow::ipc::MakeFileWriter(output, batches->schema()));
  for (auto batch = check(path, batches->Next()); batch != nullptr; batch = check(path, batches->Next()))
    check(path, writer->WriteRecordBatch(*batch));
  check(path, writer->Close());
  check(path, output->Close());
}

}  // namespace

std::unique_ptr<RecordSource> open_arrow_records(const fs::path& file) { return std::make_unique<ArrowSource>(file.string(), MappedFile(file)); }

std::unique_ptr<RecordSource> open_parquet_records(const fs::path& file) {
  const TemporaryFile unpacked("Parquet is unpacked there");
  try {
    unpack_parquet(file, unpacked.path());
  } catch (const parquet::ParquetException& error) {
    refuse(file, error.what());
  }
  return std::make_unique<ArrowSource>(file.string(), MappedFile(unpacked.path()));
}

}  // namespace tessera::data
