#include "tessera/checkpoint/verify.h"

#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/checkpoint/hash.h"

namespace tessera::checkpoint {
namespace {

TEST(VerifyTest, NamesEachFile) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "short", "abc");
  test::write_file(directory / "right", "abc");
  Manifest manifest;
  manifest.files = {{"short", {4, ""}}, {"right", {3, hash_of_file(directory / "right")}}, {"gone", {1, ""}}};
  const auto names = [&](Verify verify) {
    std::string text;
    for (const Problem& problem : verify_files(directory.path(), manifest, verify)) text += problem.what + "; ";
    return text;
  };
  EXPECT_EQ(names(Verify::Off), "");
  EXPECT_EQ(names(Verify::Sizes), "the file is missing; 3 bytes where 4 were saved: truncated; ");
  EXPECT_EQ(names(Verify::Full), names(Verify::Sizes));
  EXPECT_TRUE(verify_files(directory.path(), manifest, Verify::Full, [](const std::string& name) { return name == "right"; }).empty());
}

TEST(VerifyTest, RanksShareTheFilesByBytes) {
  Manifest manifest;
  manifest.files = {{"a", {10, ""}}, {"b", {7, ""}}, {"c", {4, ""}}, {"d", {100, ""}}, {"model/consolidated/e", {9, ""}}};
  const auto wanted = [](const std::string& file) { return !is_consolidated(file) && file != "d"; };
  std::string shares[2];
  for (int rank = 0; rank < 2; ++rank) {
    const WantFile share = share_of_rank(manifest, wanted, rank, 2);
    for (const auto& [name, record] : manifest.files)
      if (share(name)) shares[rank] += name;
  }
  EXPECT_EQ(shares[0], "a");
  EXPECT_EQ(shares[1], "bc");
}

}  // namespace
}  // namespace tessera::checkpoint
