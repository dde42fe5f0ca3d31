#include "tessera/core/temporary.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/support.h"
#include "tessera/core/file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFile, HoldsWhatIsWrittenAndIsGoneAfterwards) {
  std::string path;
  std::optional<MappedFile> mapped;
  {
    TemporaryFile file("a test writes there");
    path = file.path();
    file.write(std::string_view("one, "));
    file.write(std::string_view("two"));
    mapped.emplace(path);
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(mapped->text(), "one, two") << "who has mapped it keeps it";
}

TEST(TemporaryDirectory, IsGoneWithWhatIsInIt) {
  fs::path path;
  {
    const TemporaryDirectory directory;
    path = directory.path();
    std::ofstream(path / "file") << "text";
    ASSERT_TRUE(fs::exists(path / "file"));
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace tessera
