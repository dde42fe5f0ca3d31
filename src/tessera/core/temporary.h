#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace tessera {

/// A new, empty file below the folder for temporary files (TMPDIR), gone with the object: who has mapped it by then keeps it. Failure, which says
/// what the file is for ("Parquet is unpacked there"), when it cannot be made or written.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string purpose);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  /// Appends all of the bytes.
  void write(std::span<const char> bytes);
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(const char* action) const;

  std::string purpose_;
  std::string path_;
  int descriptor_;
};

/// A new, empty directory there, removed with everything in it. Failure when it cannot be made.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tessera
