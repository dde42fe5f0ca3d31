#include "tessera/formats/safetensors.h"

#include <gmock/gmock.h>

#include <cstring>

#include "support/support.h"
#include "tessera/core/error.h"

namespace tessera::formats {
namespace {

using test::error_of;
using testing::HasSubstr;

std::string as_string(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// A file with this JSON header, whatever its sense, and `data_size` bytes of data.
std::string file_with(const std::string& json, std::size_t data_size) {
  std::string file(8, '\0');
  const std::uint64_t length = json.size();
  std::memcpy(file.data(), &length, 8);
  return file + json + std::string(data_size, 'x');
}

SafetensorsHeader parse_safetensors(const std::string& file) { return parse_safetensors_header(std::as_bytes(std::span(file)), "f.safetensors"); }

std::string error_for(const std::string& json, std::size_t data_size) {
  return error_of([&] { parse_safetensors(file_with(json, data_size)); });
}

TEST(SafetensorsFile, ReadsWhatTheReferenceImplementationWrote) {
  const SafetensorsFile file(test::test_data("formats/reference.safetensors"));
  EXPECT_EQ(file.tensors().size(), 33U);
  EXPECT_EQ(file.metadata(), (StringMap{{"format", "pt"}}));
  const TensorInfo* scalar = file.find("scalar");
  ASSERT_NE(scalar, nullptr);
  EXPECT_TRUE(scalar->shape.empty());
  float value = 0;
  std::memcpy(&value, file.bytes(*scalar).data(), 4);
  EXPECT_EQ(value, 2.5F);
  EXPECT_EQ(as_string(file.bytes(*file.find("a.bool"))), std::string("\0\1\1\1\0\1", 6));
  EXPECT_EQ(file.find("empty")->num_bytes(), 0U);
  EXPECT_NE(file.find("quote\"back\\slash/ünïcode\n"), nullptr);
  EXPECT_EQ(file.find("nothing"), nullptr);
}

TEST(SafetensorsWriter, WritesTheReferenceFileByteForByte) {
  const auto path = test::test_data("formats/reference.safetensors");
  const SafetensorsFile reference(path);
  std::vector<TensorSpec> specs;
  for (const TensorInfo& info : reference.tensors()) specs.push_back(info.spec());
  std::reverse(specs.begin(), specs.end());  // the order in the file is the writer's business

  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  SafetensorsWriter writer(*operations, directory / "copy.safetensors", specs, reference.metadata());
  for (const TensorInfo& info : writer.tensors()) {
    const auto bytes = reference.bytes(*reference.find(info.name));
    writer.write(info.name, bytes.first(bytes.size() / 2));  // in two pieces
    writer.write(info.name, bytes.subspan(bytes.size() / 2));
  }
  writer.finish();
  EXPECT_EQ(test::read_file(directory / "copy.safetensors"), test::read_file(path));
}

TEST(SafetensorsWriter, WritesAFileWithoutTensors) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  SafetensorsWriter writer(*operations, directory / "empty.safetensors", {});
  writer.finish();
  EXPECT_TRUE(SafetensorsFile(directory / "empty.safetensors").tensors().empty());
}

TEST(SafetensorsWriter, RefusesNamesThatNoFileCanHold) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  const auto error = error_of([&] {
    SafetensorsWriter(*operations, directory / "f",
                      {{"a", DType::F32, {1}}, {"a", DType::F32, {2}}, {"\xff", DType::F32, {}}, {"__metadata__", DType::F32, {}}});
  });
  EXPECT_THAT(error, HasSubstr("two tensors named \"a\""));
  EXPECT_THAT(error, HasSubstr("not valid UTF-8"));
  EXPECT_THAT(error, HasSubstr("cannot be named __metadata__"));
  EXPECT_FALSE(std::filesystem::exists(directory / "f"));
}

TEST(SafetensorsWriter, StopsAtBytesThatDoNotFitThePlan) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  const std::vector<std::byte> bytes(8);
  SafetensorsWriter writer(*operations, directory / "f", {{"a", DType::F32, {1}}, {"b", DType::F32, {1}}});
  EXPECT_DEATH(writer.write("b", std::span(bytes).first(4)), "out of order");
  EXPECT_DEATH(writer.write("a", bytes), "more bytes");
  EXPECT_DEATH(writer.finish(), "missing");
}

TEST(SafetensorsHeader, SortsTensorsByTheirBytes) {
  const auto header = parse_safetensors(
      file_with(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"c":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"e":{"dtype":"F32",)"
                R"("shape":[0],"data_offsets":[3,3]}}  )",
                3));
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "c");
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[2].name, "e");
}

TEST(SafetensorsHeader, RefusesBrokenFiles) {
  EXPECT_THAT(error_of([] { parse_safetensors("abc"); }), HasSubstr("too short for a safetensors file (3 bytes)"));
  EXPECT_THAT(error_of([] { parse_safetensors("version https://git-lfs.github.com/spec/v1\n"); }), HasSubstr("Git LFS pointer"));
  std::string claims = file_with("{}", 0);
  const std::uint64_t length = 100;
  std::memcpy(claims.data(), &length, 8);
  EXPECT_THAT(error_of([&] { parse_safetensors(claims); }), HasSubstr("the header claims 100 bytes, the file has 2"));
  std::memset(claims.data(), 0xFF, 8);
  EXPECT_THAT(error_of([&] { parse_safetensors(claims); }), HasSubstr("at most 100000000 bytes"));
  EXPECT_THAT(error_for("{\"a\":", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_for("", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_for("[]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2),
              HasSubstr("key \"a\" is given twice"));
  EXPECT_THAT(error_for(R"({"__metadata__":{"a":1}})", 0), HasSubstr("__metadata__ key \"a\" is not a string"));
  EXPECT_THAT(error_for(R"({"__metadata__":[]})", 0), HasSubstr("__metadata__ is not an object"));
}

TEST(SafetensorsHeader, RefusesBrokenEntries) {
  EXPECT_THAT(error_for(R"({"a":3})", 0), HasSubstr("f.safetensors: tensor \"a\": its header entry is not an object"));
  EXPECT_THAT(error_for(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("\"dtype\" is missing"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("unknown dtype \"F33\""));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("dtype F8_E8M0 is not supported"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), HasSubstr("\"shape\" is missing"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1), HasSubstr("\"shape\" holds -1"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1), HasSubstr("\"shape\" holds 1.5"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})", 1), HasSubstr("holds 9223372036854775808"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1), HasSubstr("is not [begin, end]"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1), HasSubstr("is not [begin, end]"));
}

TEST(SafetensorsHeader, RefusesRangesThatLie) {
  EXPECT_THAT(error_for(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})", 20),
              HasSubstr("shape [2, 3] of F32 takes 24 bytes, data_offsets span 20"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0), HasSubstr("overflows"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}})", 4), HasSubstr("overflows"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[3],"data_offsets":[3,6]}})", 6),
              HasSubstr("tensor \"b\": its bytes overlap those of \"a\""));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[3],"data_offsets":[5,8]}})", 8),
              HasSubstr("tensor \"b\": 1 bytes before it belong to no tensor"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3), HasSubstr("its bytes end at 4, the data ends at 3"));
  EXPECT_THAT(error_for(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 6), HasSubstr("2 bytes at the end belong to no tensor"));
}

TEST(SafetensorsFile, SaysWhichFileIsMissing) {
  EXPECT_THAT(error_of([] { SafetensorsFile("/nowhere/model.safetensors"); }), HasSubstr("/nowhere/model.safetensors"));
}

}  // namespace
}  // namespace tessera::formats
