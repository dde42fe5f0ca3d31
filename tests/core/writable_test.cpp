#include "tessera/core/writable.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "support/support.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

TEST(Writable, ADirectoryOrTheOneItWouldBeMadeIn) {
  const test::TemporaryDirectory directory;
  EXPECT_EQ(why_not_writable(directory.path()), "");
  EXPECT_EQ(why_not_writable(directory / "new/deep/"), "");
  EXPECT_FALSE(fs::exists(directory / "new"));
  EXPECT_EQ(why_not_writable("relative-name-of-nothing"), "");
  test::write_file(directory / "file", "");
  EXPECT_THAT(why_not_writable(directory / "file"), EndsWith("file is not a directory"));
  EXPECT_THAT(why_not_writable(directory / "file/below"), EndsWith("file is not a directory"));
}

TEST(Writable, ALinkThatLeadsNowhereIsNotTakenForANewName) {
  const test::TemporaryDirectory directory;
  fs::create_symlink("gone", directory / "link");
  for (const char* const name : {"link", "link/below"})
    EXPECT_THAT(why_not_writable(directory / name), EndsWith("link is a link to gone, which does not exist"));
}

/// Root may write everywhere: such a process asks as somebody else.
void say_as_nobody(const fs::path& path) {
  if (::geteuid() == 0 && ::setuid(65534) != 0) std::exit(1);
  std::cerr << why_not_writable(path) << "\n" << error_of([&] { check_can_create(path); });
  std::exit(0);
}

TEST(Writable, PermissionsCount) {
  const test::TemporaryDirectory directory;
  fs::create_directory(directory / "closed");
  fs::permissions(directory.path(), fs::perms(0555));
  fs::permissions(directory / "closed", fs::perms(0));
  EXPECT_EXIT(say_as_nobody(directory / "new"), testing::ExitedWithCode(0),
              AllOf(HasSubstr(directory.path().string() + ": Permission denied\n"), HasSubstr("new: cannot be created: ")));
  EXPECT_EXIT(say_as_nobody(directory / "closed/deep/new"), testing::ExitedWithCode(0), HasSubstr("Permission denied"));
  fs::permissions(directory.path(), fs::perms::owner_all);
  fs::permissions(directory / "closed", fs::perms::owner_all);
}

TEST(Writable, OnlyTheLastPartIsCreated) {
  const test::TemporaryDirectory directory;
  EXPECT_NO_THROW(check_can_create(directory / "new"));
  EXPECT_NO_THROW(check_can_create("new"));
  EXPECT_THAT(error_of([&] { check_can_create(directory / "no/new"); }),
              AllOf(HasSubstr("no/new: there is no directory "), HasSubstr("only the last part of the path is created")));
}

}  // namespace
}  // namespace tessera
