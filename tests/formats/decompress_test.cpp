#include "tessera/formats/decompress.h"

#include <gmock/gmock.h>
#include <zlib.h>
#include <zstd.h>

#include "support/support.h"

namespace tessera::formats {
namespace {

using test::error_of;
using testing::HasSubstr;

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

/// More than one block of the unpacker.
std::string long_text() {
  std::string text;
  for (int line = 0; text.size() < 2'000'000; ++line) text += "line " + std::to_string(line * 7919) + "\n";
  return text;
}

class MapText : public testing::Test {
 protected:
  std::string text_of(const std::string& name, const std::string& bytes) const {
    test::write_file(directory_ / name, bytes);
    return std::string(map_text(directory_ / name).text());
  }
  test::TemporaryDirectory directory_;
};

TEST_F(MapText, UnpacksMembersAndFrames) {
  const std::string text = long_text();
  EXPECT_EQ(text_of("a.jsonl", text), text);
  EXPECT_EQ(text_of("a.jsonl.gz", gzip(text)), text);
  EXPECT_EQ(text_of("a.jsonl.gz", gzip(text) + gzip("more")), text + "more");
  EXPECT_EQ(text_of("a.jsonl.zst", zstd(text)), text);
  EXPECT_EQ(text_of("a.jsonl.zst", zstd(text) + zstd("more")), text + "more");
  EXPECT_EQ(text_of("a.txt.gz", gzip("")), "");
}

TEST_F(MapText, TruncatedAndDamagedFilesAreErrors) {
  const std::string text = long_text();
  for (const auto& [name, packed] : {std::pair("a.txt.gz", gzip(text)), std::pair("a.txt.zst", zstd(text))}) {
    for (const std::size_t size : {std::size_t{3}, std::size_t{20}, packed.size() / 2, packed.size() - 1})
      EXPECT_THAT(error_of([&, name = name] { text_of(name, packed.substr(0, size)); }), HasSubstr("the file ends inside its compressed data"))
          << name << size;
    std::string damaged = packed;
    for (std::size_t at = damaged.size() / 2; at < damaged.size() / 2 + 40; ++at) damaged[at] = static_cast<char>(damaged[at] ^ 0x5A);
    EXPECT_THAT(error_of([&, name = name] { text_of(name, damaged); }), HasSubstr("damaged compressed data")) << name;
    EXPECT_THAT(error_of([&, name = name] { text_of(name, "plain text, not compressed at all"); }), HasSubstr("damaged compressed data")) << name;
  }
}

TEST(WithoutCompression, IsTheFormatInside) {
  EXPECT_EQ(without_compression("d/a.jsonl.gz"), "d/a.jsonl");
  EXPECT_EQ(without_compression("d/a.jsonl"), "d/a.jsonl");
}

}  // namespace
}  // namespace tessera::formats
