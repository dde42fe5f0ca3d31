#include "tessera/checkpoint/recording_operations.h"

#include <gtest/gtest.h>

#include "support/support.h"

namespace tessera::checkpoint {
namespace {

TEST(RecordingOperationsTest, KeepsTheSizeAndHashOfEachFinishedFile) {
  const test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  RecordingFileOperations recorder(*operations, directory.path());
  recorder.create_directory(directory / "sub");
  FileWriter first(recorder, directory.path() / "sub" / "file");
  FileWriter second(recorder, directory / "unfinished");
  first.write("a");
  second.write("x");
  first.write("bc");
  first.finish();
  ASSERT_EQ(recorder.files().size(), 1u);
  EXPECT_EQ(recorder.files().at("sub/file").size, 3u);
  EXPECT_EQ(recorder.files().at("sub/file").xxh3, hash_of_file(directory.path() / "sub" / "file"));
  EXPECT_EQ(test::read_file(directory.path() / "sub" / "file"), "abc");
}

}  // namespace
}  // namespace tessera::checkpoint
