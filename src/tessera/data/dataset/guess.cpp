#include "tessera/data/dataset/guess.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <filesystem>

#include "tessera/core/error.h"
#include "tessera/data/dataset/files.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {
namespace {

using config::DatasetKind;

struct PairColumns {
  const char* question;
  const char* answer;
  const char* context;  ///< may be missing
};
constexpr std::array kPairs = {PairColumns{"question", "answer", "context"}, PairColumns{"prompt", "completion", "context"},
                               PairColumns{"instruction", "output", "input"}, PairColumns{"instruction", "response", "context"},
                               PairColumns{"input", "output", "context"}};

bool has(const OrderedJson& record, std::initializer_list<const char*> columns) {
  for (const char* const column : columns)
    if (!record.contains(column)) return false;
  return true;
}

/// False when no kind fits.
bool guess_kind(const OrderedJson& record, config::Dataset& dataset) {
  dataset.kind = DatasetKind::Chat;
  if (has(record, {"messages"}) || has(record, {"conversations"})) return true;
  dataset.kind = DatasetKind::Squad;
  if (has(record, {"context", "question", "answers"})) return true;
  dataset.kind = DatasetKind::HellaSwag;
  if (has(record, {"ctx", "endings", "label"})) return true;
  dataset.kind = DatasetKind::Xlam;
  if (has(record, {"query", "tools", "answers"})) return true;
  dataset.kind = DatasetKind::ColumnMapped;
  for (const PairColumns& pair : kPairs) {
    if (!has(record, {pair.question, pair.answer})) continue;
    dataset.column_mapping = {{"question", pair.question}, {"answer", pair.answer}};
    if (record.contains(pair.context)) dataset.column_mapping["context"] = pair.context;
    return true;
  }
  dataset.kind = DatasetKind::Text;
  return has(record, {"text"});
}

}  // namespace

config::Dataset guess_dataset(const std::string& path) {
  const std::filesystem::path file(path);
  const bool is_pair = file.extension() == ".idx" || std::filesystem::exists(std::filesystem::path(file).replace_extension(".idx")) ||
                       std::filesystem::exists(path + ".idx");
  config::Dataset dataset;
  dataset.paths = {path};
  if (is_pair) {
    dataset.kind = DatasetKind::MegatronPretraining;
    dataset.split = "1";
  } else if (file.extension() == ".bin") {
    dataset.kind = DatasetKind::Nanogpt;
  } else if (const auto files = find_data_files({path}); !holds_records(files.front())) {
    dataset.kind = DatasetKind::Text;
    dataset.append_eod = false;
  } else {
    const Records records(files);
    if (records.size() == 0) throw UserError({path, "holds no records", "", "check the path: the file is empty"});
    const OrderedJson first = records.record(0);
    if (!guess_kind(first, dataset)) {
      std::vector<std::string> columns;
      for (const auto& [name, value] : first.items()) columns.push_back(name);
      throw UserError({path, fmt::format("no kind of dataset is recognised by the columns {}", fmt::join(columns, ", ")), "",
                       "write a recipe whose dataset says what they are, and inspect that"});
    }
    if (dataset.kind == DatasetKind::Text) dataset.append_eod = false;
  }
  return dataset;
}

}  // namespace tessera::data
