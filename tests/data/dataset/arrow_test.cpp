#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/core/error.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {
namespace {

using test::error_of;
using test::read_file;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::filesystem::path fixture(const std::string& name) { return test::test_data("data/records") / name; }

/// The same rows as JSON (make_records.py made all of them with pyarrow).
class ArrowRecords : public testing::TestWithParam<const char*> {};

TEST_P(ArrowRecords, AreThoseOfTheJson) {
  const Records records({fixture(GetParam())});
  const Records expected({fixture("rows.json")});
  ASSERT_EQ(records.size(), 20);
  for (const std::int64_t index : {19, 0, 6, 7, 13, 1, 2, 3, 4, 5, 18}) EXPECT_EQ(records.record(index), expected.record(index)) << index;
  EXPECT_THAT(records.where(13), HasSubstr(std::string(GetParam()) + ": row 13"));
}

INSTANTIATE_TEST_SUITE_P(Formats, ArrowRecords, testing::Values("rows.parquet", "rows.arrow", "rows_file.arrow"), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

TEST(Records, MixesFormats) {
  const Records records({fixture("rows.parquet"), fixture("rows.json"), fixture("rows.arrow")});
  ASSERT_EQ(records.size(), 60);
  EXPECT_EQ(records.record(21), records.record(1));
  EXPECT_EQ(records.record(59)["label"], 19);
}

TEST(Records, AnArrowFileThatShrinksIsAnErrorNotACrash) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "rows.arrow", read_file(fixture("rows.arrow")));
  const Records records({directory / "rows.arrow"});
  std::filesystem::resize_file(directory / "rows.arrow", 8);
  EXPECT_THAT(test::error_of([&] { records.record(1); }), HasSubstr("rows.arrow: the file has become shorter while it is in use"));
}

/// Cut anywhere, or with a byte changed, a file is an error that names it, or still reads.
TEST(Records, DamagedArrowAndParquetFilesAreErrors) {
  const test::TemporaryDirectory directory;
  for (const char* const name : {"rows.parquet", "rows.arrow", "rows_file.arrow"}) {
    const std::string whole = read_file(fixture(name));
    for (std::size_t size = 0; size < whole.size() - 16; size += 97) {
      test::write_file(directory / name, whole.substr(0, size));
      try {
        const Records records({directory / name});
        EXPECT_STREQ(name, "rows.arrow") << size;  // a stream may end after any batch
        for (std::int64_t index = 0; index < records.size(); ++index) records.record(index);
      } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr(name));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::data
