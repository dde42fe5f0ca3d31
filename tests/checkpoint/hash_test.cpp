#include "tessera/checkpoint/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "support/support.h"

namespace tessera::checkpoint {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(HashTest, IsXxh3) {  // reference values: xxhsum -H3
  EXPECT_EQ(hash_hex(bytes("")), "2d06800538d394c2");
  EXPECT_EQ(hash_hex(bytes("abc")), "78af5f94892f3950");
}

TEST(HashTest, DoesNotDependOnThePieces) {
  Hasher hasher;
  hasher.update(bytes("a"));
  hasher.update(bytes(""));
  hasher.update(bytes("bc"));
  EXPECT_EQ(hasher.hex(), hash_hex(bytes("abc")));
}

TEST(HashTest, AFileIsTheHashOfItsBlocksHashes) {
  std::string text(2 * kBlockBytes + 12345, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 7);
  std::array<std::uint64_t, 3> blocks{};
  for (std::size_t i = 0; i < blocks.size(); ++i)
    blocks[i] = std::stoull(hash_hex(bytes(std::string_view(text).substr(i * kBlockBytes, kBlockBytes))), nullptr, 16);
  const std::string expected = hash_hex(std::as_bytes(std::span(blocks)));
  FileHasher hasher;
  for (std::size_t begin = 0; begin < text.size(); begin += 700'001) hasher.update(bytes(std::string_view(text).substr(begin, 700'001)));
  EXPECT_EQ(hasher.hex(), expected);
  EXPECT_EQ(hasher.size(), text.size());
  FileHasher second;  // what another rank would hash
  second.update(bytes(std::string_view(text).substr(kBlockBytes)));
  EXPECT_EQ(second.blocks(), BlockHashes(blocks.begin() + 1, blocks.end()));
  const test::TemporaryDirectory directory;
  test::write_file(directory / "file", text);
  EXPECT_EQ(hash_of_file(directory / "file"), expected);
  test::write_file(directory / "empty", "");
  EXPECT_EQ(hash_of_file(directory / "empty"), FileHasher().hex());
}

TEST(HashTest, ManyBlocksAreHashedByThreadsToTheSame) {
  std::string text(50 * kBlockBytes + 1, 'x');
  for (std::size_t i = 0; i < text.size(); i += 97) text[i] = static_cast<char>(i);
  FileHasher hasher;
  hasher.update(bytes(text));
  const test::TemporaryDirectory directory;
  test::write_file(directory / "file", text);
  EXPECT_EQ(hash_of_file(directory / "file"), hasher.hex());
}

}  // namespace
}  // namespace tessera::checkpoint
