#include "tessera/formats/tensor_source.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "formats/gguf_builder.h"
#include "formats/llama2c_builder.h"
#include "formats/safetensors_source.h"
#include "support/support.h"
#include "tessera/core/error.h"
#include "tessera/formats/huggingface.h"
#include "tessera/formats/safetensors.h"

namespace tessera::formats {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> read_floats(const TensorSource& source, const std::string& name) {
  std::vector<float> values(num_elements(source.find(name)->shape));
  source.read(name, DType::F32, std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<float> read_float_rows(const TensorSource& source, const std::string& name, std::int64_t first, std::int64_t count) {
  const auto& shape = source.find(name)->shape;
  std::vector<float> values(num_elements(shape) / static_cast<std::uint64_t>(shape[0]) * static_cast<std::uint64_t>(count));
  source.read_rows(name, first, count, DType::F32, std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<float> rows_of(const std::vector<float>& values, std::size_t width, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first * width);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * width)};
}

/// A safetensors file with one F32 tensor "weight" that counts up.
void write_counting(const std::filesystem::path& path, std::vector<std::int64_t> shape) {
  std::vector<float> values(num_elements(shape));
  std::iota(values.begin(), values.end(), 0.0F);
  const auto operations = posix_file_operations();
  SafetensorsWriter writer(*operations, path, {{"weight", DType::F32, std::move(shape)}});
  writer.write("weight", std::as_bytes(std::span(values)));
  writer.finish();
}

TEST(HuggingFaceSource, ReadsTensorsOfAllShards) {
  const auto path = test::test_data("formats/sharded");
  const auto source = open_huggingface_source(path);
  const HuggingFaceDirectory directory(path);
  ASSERT_EQ(source->tensors().size(), directory.tensors().size());
  for (const auto& entry : directory.tensors()) {
    const std::vector<float> values = read_floats(*source, entry.info.name);
    EXPECT_EQ(std::memcmp(values.data(), directory.bytes(entry).data(), entry.info.num_bytes()), 0) << entry.info.name;
  }
}

TEST(SafetensorsSource, ReadsRowsAndConverts) {
  const test::TemporaryDirectory directory;
  write_counting(directory / "f.safetensors", {5, 3});
  const auto source = open_safetensors_source(directory / "f.safetensors");
  EXPECT_THAT(read_float_rows(*source, "weight", 1, 2), ElementsAre(3, 4, 5, 6, 7, 8));
  EXPECT_THAT(read_float_rows(*source, "weight", 5, 0), ElementsAre());
  std::vector<std::uint16_t> halves(15);
  source->read("weight", DType::F16, std::as_writable_bytes(std::span(halves)));
  EXPECT_EQ(halves[14], float_to_half(14.0F));
}

TEST(SafetensorsSource, ReadsScalarsAndEmptyTensors) {
  const auto source = open_safetensors_source(test::test_data("formats/reference.safetensors"));
  EXPECT_THAT(read_floats(*source, "scalar"), ElementsAre(2.5F));
  EXPECT_THAT(read_floats(*source, "empty"), ElementsAre());
  EXPECT_THAT(read_floats(*source, "a.bfloat16"), ElementsAre(0, 1, 1, 1, 0, 1));
  EXPECT_THAT(read_floats(*source, "a.float64"), ElementsAre(0, 1, 1, 1, 0, 1));
}

TEST(TensorSource, NamesWhatIsMissingOrDoesNotConvert) {
  const auto source = open_safetensors_source(test::test_data("formats/reference.safetensors"));
  std::vector<float> values(6);
  const auto out = std::as_writable_bytes(std::span(values));
  const std::string missing = error_of([&] { source->read("a.float23", DType::F32, out); });
  EXPECT_THAT(missing, HasSubstr("no tensor named \"a.float23\""));
  EXPECT_THAT(missing, HasSubstr("did you mean"));
  EXPECT_THAT(error_of([&] { source->read("a.int64", DType::F32, out); }), HasSubstr("tensor \"a.int64\" is I64, which does not convert to F32"));
}

TEST(TensorSource, SeveralThreadsReadAtOnce) {
  const test::TemporaryDirectory directory;
  write_counting(directory / "f.safetensors", {4, 1 << 20});
  const auto source = open_safetensors_source(directory / "f.safetensors");
  std::vector<std::thread> threads;
  for (std::int64_t row = 0; row < 4; ++row) {
    threads.emplace_back([&, row] {
      const std::vector<float> values = read_float_rows(*source, "weight", row, 1);
      EXPECT_EQ(values.front(), static_cast<float>(row << 20));
      EXPECT_EQ(values.back(), static_cast<float>(((row + 1) << 20) - 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TensorSource, ReleasesWhatItHasRead) {
  const test::TemporaryDirectory directory;
  write_counting(directory / "f.safetensors", {32, 1 << 19});  // 64 MiB
  const auto source = open_safetensors_source(directory / "f.safetensors");
  std::vector<std::uint16_t> out(std::size_t{32} << 19);
  std::fill(out.begin(), out.end(), std::uint16_t{1});
  const std::uint64_t before = test::resident_bytes();
  source->read("weight", DType::BF16, std::as_writable_bytes(std::span(out)));
  EXPECT_LT(test::resident_bytes(), before + (8 << 20));
  EXPECT_EQ(out.back(), float_to_bfloat16(static_cast<float>((32 << 19) - 1)));
}

TEST(GgufSource, Dequantizes) {
  const auto source = open_gguf_source(test::test_data("formats/reference.gguf"));
  const auto expected = open_safetensors_source(test::test_data("formats/reference_gguf_values.safetensors"));
  EXPECT_EQ(source->find("half")->dtype, DType::F16);
  EXPECT_EQ(source->find("quantized")->dtype, DType::F32);
  EXPECT_THAT(source->find("quantized")->shape, ElementsAre(4, 64));
  EXPECT_EQ(read_floats(*source, "plain"), read_floats(*expected, "plain"));
  const std::vector<float> whole = read_floats(*expected, "quantized");
  EXPECT_EQ(read_floats(*source, "quantized"), whole);
  EXPECT_EQ(read_float_rows(*source, "quantized", 1, 2), rows_of(whole, 64, 1, 2));
  EXPECT_EQ(read_floats(*source, "half")[0], half_to_float(float_to_half(whole[0] * 0 + read_floats(*expected, "plain")[0])));
}

TEST(GgufSource, StreamsTensorsLargerThanItsBuffer) {
  const test::TemporaryDirectory directory;
  test::GgufBuilder builder;
  const std::size_t num_blocks = 70'000;  // 2.2 million elements; the buffer holds one
  std::string data;
  for (std::size_t block = 0; block < num_blocks; ++block) {
    data += test::GgufBuilder::bytes(float_to_half(1.0F));
    data += std::string(32, static_cast<char>(block % 100));
  }
  builder.add_tensor("weight", 8, {3200, 700}, data);
  test::write_file(directory / "f.gguf", builder.build());
  const std::vector<float> values = read_floats(*open_gguf_source(directory / "f.gguf"), "weight");
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(i / 32 % 100)) << i;
}

TEST(GgufSource, NamesEveryTensorItCannotRead) {
  const test::TemporaryDirectory directory;
  test::GgufBuilder builder;
  builder.add_tensor("a", 10, {256}, std::string(84, 'x'));
  builder.add_tensor("b", 39, {32, 1}, std::string(17, 'x'));
  builder.add_tensor("c", 2, {32}, std::string(18, 'x'));
  test::write_file(directory / "f.gguf", builder.build());
  const std::string error = error_of([&] { open_gguf_source(directory / "f.gguf"); });
  EXPECT_THAT(error, HasSubstr("tensor \"a\": type Q2_K is not supported"));
  EXPECT_THAT(error, HasSubstr("tensor \"b\": type MXFP4 is not supported"));
  EXPECT_THAT(error, HasSubstr("tensor \"c\": a vector of type Q4_0 is not supported"));
}

TEST(Llama2cSource, PutsRotaryRowsInHuggingFaceOrder) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "model.bin", test::small_llama2c_file(false));
  const auto source = open_llama2c_source(directory / "model.bin");
  EXPECT_THAT(read_floats(*source, "model.norm.weight"), ElementsAre(600, 601, 602, 603, 604, 605, 606, 607));
  EXPECT_EQ(read_floats(*source, "lm_head.weight")[0], 632.0F);
  // The first q_proj begins at 56 with rows of 8 floats; heads have 4 rows, of which 0 and 1, 2 and 3 are pairs.
  const std::vector<float> query = read_floats(*source, "model.layers.0.self_attn.q_proj.weight");
  std::vector<float> first_of_rows;
  for (std::size_t row = 0; row < 8; ++row) first_of_rows.push_back(query[row * 8]);
  EXPECT_THAT(first_of_rows, ElementsAre(56, 56 + 16, 56 + 8, 56 + 24, 88, 88 + 16, 88 + 8, 88 + 24));
  EXPECT_EQ(read_float_rows(*source, "model.layers.0.self_attn.q_proj.weight", 3, 3), rows_of(query, 8, 3, 3));
  EXPECT_EQ(read_float_rows(*source, "model.embed_tokens.weight", 1, 1), (std::vector<float>{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(RenamedSource, NamesEveryMissingTensor) {
  const auto open = [] { return open_gguf_source(test::test_data("formats/reference.gguf")); };
  const std::string error = error_of([&] { rename_tensors(open(), {{"a", "none", 0}, {"b", "plain", 0}, {"c", "neither", 0}, {"d", "half", 2}}); });
  EXPECT_THAT(error, HasSubstr("tensor \"none\" is missing (it becomes \"a\")"));
  EXPECT_THAT(error, HasSubstr("tensor \"neither\" is missing"));
  EXPECT_THAT(error, HasSubstr("tensor \"half\" of shape [2, 3] does not consist of 2 heads"));
  EXPECT_EQ(rename_tensors(open(), {{"b", "plain", 0}})->tensors().size(), 1U);
}

}  // namespace
}  // namespace tessera::formats
