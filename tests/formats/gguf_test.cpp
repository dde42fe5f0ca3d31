#include "tessera/formats/gguf.h"

#include <gmock/gmock.h>

#include "formats/gguf_builder.h"
#include "support/support.h"
#include "tessera/core/error.h"

namespace tessera::formats {
namespace {

using test::error_of;
using test::GgufBuilder;
using testing::ElementsAre;
using testing::HasSubstr;

GgufHeader parse_gguf(const std::string& file) { return parse_gguf_header(std::as_bytes(std::span(file)), "f.gguf"); }
std::string error_for(const GgufBuilder& builder) {
  return error_of([&] { parse_gguf(builder.build()); });
}

TEST(GgufFile, ReadsWhatTheGgufPackageWrote) {
  const GgufFile file(test::test_data("formats/reference.gguf"));
  EXPECT_EQ(file.header().version, 3U);
  EXPECT_EQ(file.find_string("general.architecture"), "llama");
  EXPECT_EQ(file.find_integer("test.u8"), 200);
  EXPECT_EQ(file.find_integer("test.i8"), -3);
  EXPECT_EQ(file.find_integer("test.u64"), std::int64_t{1} << 40);
  EXPECT_EQ(file.find_integer("test.i32"), -70000);
  EXPECT_EQ(file.find_number("test.f32"), 0.5);
  EXPECT_EQ(file.find_number("test.f64"), 1e-5);
  EXPECT_EQ(file.find_number("test.u8"), 200.0);
  EXPECT_EQ(file.find_bool("test.bool"), true);
  EXPECT_EQ(file.find_string("test.string"), "héllo");
  EXPECT_THAT(*file.find_strings("test.strings"), ElementsAre("a", "bc", ""));
  EXPECT_THAT(*file.find_integers("test.integers"), ElementsAre(1, -2, 3));
  EXPECT_THAT(*file.find_numbers("test.floats"), ElementsAre(0.5, 1.5));
  const auto& nested = std::get<std::vector<GgufValue>>(file.header().metadata.at("test.nested").value);
  EXPECT_EQ(std::get<std::vector<GgufValue>>(nested[0].value).size(), 2U);
  EXPECT_EQ(file.find_string("absent"), std::nullopt);
  EXPECT_EQ(file.find_integers("absent"), std::nullopt);

  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.find("nothing"), nullptr);
  const GgufTensor* half = file.find("half");
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(half->type, GgmlType::F16);
  EXPECT_THAT(half->shape, ElementsAre(2, 3));
  EXPECT_EQ(file.bytes(*half).size(), 12U);
  EXPECT_EQ(file.find("quantized")->type, GgmlType::Q8_0);
  EXPECT_EQ(file.find("quantized")->num_bytes, 4U * 2 * 34);
}

TEST(GgufFile, SaysWhenAValueIsOfAnotherKind) {
  const GgufFile file(test::test_data("formats/reference.gguf"));
  EXPECT_THAT(error_of([&] { file.find_string("test.u8"); }), HasSubstr("metadata key \"test.u8\" is not a string"));
  EXPECT_THAT(error_of([&] { file.find_integer("test.f32"); }), HasSubstr("is not an integer"));
  EXPECT_THAT(error_of([&] { file.find_bool("test.u8"); }), HasSubstr("is not a boolean"));
  EXPECT_THAT(error_of([&] { file.find_strings("test.integers"); }), HasSubstr("is not a list of strings"));
  EXPECT_THAT(error_of([&] { file.find_numbers("test.f64"); }), HasSubstr("is not a list of numbers"));
}

TEST(GgufHeader, HonoursTheAlignmentOfTheFile) {
  GgufBuilder builder;
  builder.alignment = 64;
  builder.add_u32("general.alignment", 64);
  builder.add_tensor("a", 0, {1}, std::string(4, 'a'));
  builder.add_tensor("b", 0, {2}, std::string(8, 'b'));
  const GgufHeader header = parse_gguf(builder.build());
  EXPECT_EQ(header.alignment, 64U);
  EXPECT_EQ(header.data_begin % 64, 0U);
  EXPECT_EQ(header.tensors[1].begin, 64U);
}

TEST(GgufHeader, AcceptsAVocabularyWithoutTensors) {
  GgufBuilder builder;
  builder.version = 2;
  builder.add_strings("tokenizer.ggml.tokens", {"a", "b"});
  EXPECT_TRUE(parse_gguf(builder.build()).tensors.empty());
}

TEST(GgufHeader, RefusesOtherFilesAndVersions) {
  EXPECT_THAT(error_of([] { parse_gguf("GG"); }), HasSubstr("f.gguf: not a GGUF file"));
  EXPECT_THAT(error_of([] { parse_gguf(""); }), HasSubstr("not a GGUF file"));
  GgufBuilder builder;
  builder.magic = "GGML";
  EXPECT_THAT(error_for(builder), HasSubstr("not a GGUF file"));
  builder.magic = "GGUF";
  builder.version = 1;
  EXPECT_THAT(error_for(builder), HasSubstr("GGUF version 1 is not supported"));
  builder.version = 4;
  EXPECT_THAT(error_for(builder), HasSubstr("unknown GGUF version 4"));
  builder.version = 3U << 24;
  EXPECT_THAT(error_for(builder), HasSubstr("big-endian GGUF is not supported"));
}

TEST(GgufHeader, RefusesBrokenMetadata) {
  const auto error_with = [](std::uint32_t type, const std::string& payload) {
    GgufBuilder builder;
    builder.add_raw("key", type, payload);
    return error_for(builder);
  };
  EXPECT_THAT(error_with(13, ""), HasSubstr("metadata key \"key\": unknown value type 13"));
  EXPECT_THAT(error_with(7, "\2"), HasSubstr("2 is not a boolean"));
  EXPECT_THAT(error_with(8, GgufBuilder::bytes(UINT64_MAX)), HasSubstr("the file ends where 18446744073709551615 more bytes are needed"));
  EXPECT_THAT(error_with(9, GgufBuilder::bytes(std::uint32_t{0}) + GgufBuilder::bytes(std::uint64_t{1} << 60)),
              HasSubstr("more than the file can hold"));
  std::string nested;
  for (int i = 0; i < 10; ++i) nested += GgufBuilder::bytes(std::uint32_t{9}) + GgufBuilder::bytes(std::uint64_t{1});
  EXPECT_THAT(error_with(9, nested), HasSubstr("nested too deeply"));
  GgufBuilder twice;
  twice.add_u32("key", 1);
  twice.add_u32("key", 1);
  EXPECT_THAT(error_for(twice), HasSubstr("metadata key \"key\" is given twice"));
  for (const std::uint32_t alignment : {0U, 12U, 1U << 31}) {
    GgufBuilder builder;
    builder.add_u32("general.alignment", alignment);
    EXPECT_THAT(error_for(builder), HasSubstr("general.alignment")) << alignment;
  }
}

TEST(GgufHeader, RefusesBrokenTensors) {
  const auto error_with = [](std::uint32_t type, const std::vector<std::uint64_t>& dimensions, const std::string& data,
                             std::uint64_t offset = UINT64_MAX) {
    GgufBuilder builder;
    builder.add_tensor("t", type, dimensions, data, offset);
    return error_for(builder);
  };
  EXPECT_THAT(error_with(4, {1}, "abcd"), HasSubstr("tensor \"t\" has the unknown type 4"));
  EXPECT_THAT(error_with(0, {1, 1, 1, 1, 1}, "abcd"), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(error_with(2, {33}, std::string(64, 'x')), HasSubstr("has rows of 33 elements, not whole blocks of 32 (Q4_0)"));
  EXPECT_THAT(error_with(0, {1ULL << 62, 16}, "abcd"), HasSubstr("has a size that overflows"));
  EXPECT_THAT(error_with(0, {1ULL << 63}, "abcd"), HasSubstr("has a dimension of 9223372036854775808"));
  EXPECT_THAT(error_with(0, {2}, "abcd"), HasSubstr("takes 8 bytes from 0 of the data, which has 4"));
  EXPECT_THAT(error_with(0, {1}, "abcd", 3), HasSubstr("not a multiple of the alignment 32"));
  EXPECT_THAT(error_with(0, {1}, "abcd", UINT64_MAX - 31), HasSubstr("takes 4 bytes from"));
  EXPECT_THAT(error_with(0, {0}, "", 0), HasSubstr("ends before its tensors' data"));
  GgufBuilder twice;
  twice.add_tensor("t", 0, {1}, "abcd");
  twice.add_tensor("t", 0, {1}, "abcd");
  EXPECT_THAT(error_for(twice), HasSubstr("tensor \"t\" is listed twice"));
  GgufBuilder overlapping;
  overlapping.add_tensor("t", 0, {16}, std::string(64, 'x'));
  overlapping.add_tensor("u", 0, {1}, "abcd", 32);
  EXPECT_THAT(error_for(overlapping), HasSubstr("tensor \"u\" overlaps \"t\""));
  GgufBuilder many;
  many.num_tensors_claimed = 1ULL << 40;
  EXPECT_THAT(error_for(many), HasSubstr("claims 1099511627776 tensors"));
}

TEST(GgufHeader, RefusesEveryTruncation) {
  const std::string whole = test::read_file(test::test_data("formats/reference.gguf"));
  for (std::size_t size = 0; size < whole.size() - 32; ++size) EXPECT_THROW(parse_gguf(whole.substr(0, size)), UserError) << size;
}

}  // namespace
}  // namespace tessera::formats
