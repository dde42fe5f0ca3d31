#include "tessera/checkpoint/hash.h"

#include <gtest/gtest.h>

#include <string_view>

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

}  // namespace
}  // namespace tessera::checkpoint
