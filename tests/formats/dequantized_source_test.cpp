#include "tessera/formats/dequantized_source.h"

#include <gmock/gmock.h>

#include "formats/safetensors_source.h"
#include "support/support.h"
#include "tessera/formats/safetensors.h"

/// Against what torch and transformers make of the same bytes (tests/data/formats/make_quantized.py).
namespace tessera::formats {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

std::filesystem::path fixture() { return test::test_data("formats/quantized.safetensors"); }

std::vector<float> rows(const TensorSource& source, const std::string& name, std::int64_t first, std::int64_t count) {
  const std::vector<std::int64_t>& shape = source.find(name)->shape;
  std::vector<float> values(num_elements(shape) / static_cast<std::uint64_t>(shape[0]) * static_cast<std::uint64_t>(count));
  source.read_rows(name, first, count, DType::F32, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(DequantizedSource, ShowsOneTensorForTwo) {
  const auto source = open_safetensors_source(fixture());
  ASSERT_NE(source->find("fp8.weight"), nullptr);
  EXPECT_EQ(source->find("fp8.weight")->dtype, DType::F32);
  EXPECT_EQ(source->find("mxfp4")->shape, (std::vector<std::int64_t>{3, 64, 5})) << "as unquantised weights lie: experts, in, out";
  for (const char* const gone : {"fp8.weight_scale_inv", "mxfp4_blocks", "mxfp4_scales"}) EXPECT_EQ(source->find(gone), nullptr) << gone;
  EXPECT_EQ(source->tensors().size(), 4U) << "and what is not quantised";
}

TEST(DequantizedSource, Float8ValuesTimesTheScaleOfTheirBlock) {
  const auto source = open_safetensors_source(fixture());
  EXPECT_EQ(rows(*source, "fp8.weight", 0, 131), rows(*source, "fp8.expected", 0, 131));
  EXPECT_EQ(rows(*source, "fp8.weight", 126, 4), rows(*source, "fp8.expected", 126, 4)) << "over the edge of a block";
  EXPECT_EQ(rows(*source, "fp8.weight", 130, 1), rows(*source, "fp8.expected", 130, 1));
}

TEST(DequantizedSource, FourBitValuesTimesTheScaleOfTheirGroup) {
  const auto source = open_safetensors_source(fixture());
  EXPECT_EQ(rows(*source, "mxfp4", 0, 3), rows(*source, "mxfp4.expected", 0, 3));
  EXPECT_EQ(rows(*source, "mxfp4", 1, 1), rows(*source, "mxfp4.expected", 1, 1)) << "one expert";
}

TEST(DequantizedSource, NamesEveryTensorWithoutItsScales) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  const std::vector<std::byte> zeros(256 * 16);
  SafetensorsWriter writer(
      *operations, directory / "a.safetensors",
      {{"a.weight", DType::F8_E4M3, {16, 256}}, {"a.weight_scale_inv", DType::F32, {1, 1}}, {"b_blocks", DType::U8, {1, 4, 2, 16}}});
  for (const TensorInfo& tensor : writer.tensors()) writer.write(tensor.name, std::span(zeros).first(tensor.num_bytes()));
  writer.finish();
  EXPECT_THAT(error_of([&] { open_safetensors_source(directory / "a.safetensors"); }),
              AllOf(HasSubstr("a.weight_scale_inv is [1, 1]"), HasSubstr("[1, 2]"), HasSubstr("b_scales is missing")));
}

}  // namespace
}  // namespace tessera::formats
