#include "tessera/core/file.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "support/fault_operations.h"
#include "support/support.h"
#include "tessera/core/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using testing::HasSubstr;

TEST(File, MapsAFile) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "data", "some bytes");
  MappedFile file(directory / "data");
  EXPECT_EQ(file.text(), "some bytes");
  const MappedFile moved = std::move(file);
  EXPECT_EQ(moved.text(), "some bytes");
  EXPECT_EQ(moved.path(), directory / "data");
}

TEST(File, AnEmptyFileHasNoBytes) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "empty", "");
  EXPECT_EQ(MappedFile(directory / "empty").bytes().size(), 0U);
}

TEST(File, DroppedPagesCanBeReadAgain) {
  const test::TemporaryDirectory directory;
  std::string content(100'000, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
  test::write_file(directory / "data", content);
  const MappedFile file(directory / "data");
  EXPECT_EQ(file.text(), content);
  file.drop(10, 90'000);
  file.drop(0, content.size());
  file.drop(99'999, 1);
  EXPECT_EQ(file.text(), content);
}

TEST(File, UnreadableFilesAreUserErrors) {
  const test::TemporaryDirectory directory;
  EXPECT_THROW(MappedFile(directory / "absent"), UserError);
  EXPECT_THAT(error_of([&] { MappedFile(directory / "absent"); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { MappedFile{directory.path()}; }), HasSubstr("directory"));
  EXPECT_THAT(error_of([] { read_text_file("/dev/null"); }), HasSubstr("/dev/null"));
}

TEST(File, WriterWritesAndCounts) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  FileWriter writer(*operations, directory / "out");
  writer.write("hello ");
  writer.write(std::as_bytes(std::span("world", 5)));
  EXPECT_EQ(writer.size(), 11U);
  writer.finish();
  EXPECT_EQ(read_text_file(directory / "out"), "hello world");
}

TEST(File, FailuresNamePathAndReason) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  EXPECT_THROW(operations->create(directory / "no/such/file"), Failure);
  EXPECT_THAT(error_of([&] { operations->create(directory / "no/such/file"); }), HasSubstr("no/such/file: cannot create the file: No such file"));
  EXPECT_THAT(error_of([&] { operations->create_directory(directory.path()); }), HasSubstr("File exists"));
  EXPECT_THAT(error_of([&] { operations->rename(directory / "a", directory / "b"); }), HasSubstr("cannot rename a"));
  EXPECT_THAT(error_of([&] { operations->sync_directory(directory / "absent"); }), HasSubstr("cannot open the directory"));
}

TEST(File, AFullDiskSaysSo) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "SKIPPED: no /dev/full";
  const auto operations = posix_file_operations();
  FileWriter writer(*operations, "/dev/full");
  EXPECT_THAT(error_of([&] { writer.write("x"); }), HasSubstr("No space left on device"));
}

TEST(File, ReplaceFile) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  replace_file(*operations, directory / "status.json", "old");
  replace_file(*operations, directory / "status.json", "new");
  EXPECT_EQ(read_text_file(directory / "status.json"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1);
}

TEST(File, WhatCannotBeReplacedLeavesNothing) {
  const test::TemporaryDirectory directory;
  fs::create_directory(directory / "taken");
  EXPECT_THAT(error_of([&] { replace_file(*posix_file_operations(), directory / "taken", "new"); }), HasSubstr("taken"));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1);
}

TEST(File, SeveralWritersEachWriteAPart) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  FileWriter(*operations, directory / "parts").finish();
  for (const auto& [offset, text] : {std::pair(6, "world"), std::pair(0, "hello ")}) {
    FileWriter writer(*operations, directory / "parts", static_cast<std::uint64_t>(offset));
    writer.write(std::string_view(text));
    writer.finish();
  }
  EXPECT_EQ(read_text_file(directory / "parts"), "hello world");
  EXPECT_THAT(test::error_of([&] { FileWriter(*operations, directory / "none", 0); }), HasSubstr("cannot open the file"));
}

TEST(File, ReplaceSymlink) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  fs::create_directory(directory / "one");
  fs::create_directory(directory / "two");
  replace_symlink(*operations, "one", directory / "LATEST");
  replace_symlink(*operations, "two", directory / "LATEST");
  EXPECT_EQ(fs::read_symlink(directory / "LATEST"), "two");
  fs::create_symlink("nowhere", directory / "LATEST.new");  // left behind by a crash
  replace_symlink(*operations, "one", directory / "LATEST");
  EXPECT_EQ(fs::read_symlink(directory / "LATEST"), "one");
}

/// Fails the n-th operation for every n: the old content must stay readable until the new is complete.
TEST(File, ReplacementsSurviveAFailureAtEveryOperation) {
  bool completed = false;
  for (int failing = 0; !completed; ++failing) {
    const test::TemporaryDirectory directory;
    const auto real = posix_file_operations();
    replace_file(*real, directory / "status", "old");
    replace_symlink(*real, "old", directory / "LATEST");
    FaultOperations operations(*real, {.at = failing, .kind = FaultKind::NoSpace, .lasting = true});
    try {
      replace_file(operations, directory / "status", "new");
      replace_symlink(operations, "new", directory / "LATEST");
      completed = true;
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("No space left on device"));
    }
    const std::string status = read_text_file(directory / "status");
    EXPECT_THAT(status, testing::AnyOf("old", "new"));
    const std::string link = fs::read_symlink(directory / "LATEST");
    EXPECT_EQ(link, completed ? "new" : "old");
    ASSERT_LT(failing, 100);
  }
}

}  // namespace
}  // namespace tessera
