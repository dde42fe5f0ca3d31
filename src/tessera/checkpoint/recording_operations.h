#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tessera/checkpoint/hash.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/core/file.h"

namespace tessera::checkpoint {

/// Passes every call on to `operations` and keeps the size and hash of each file that was written and closed: whatever writes a file need not know
/// that a manifest will list it.
class RecordingFileOperations : public FileOperations {
 public:
  /// Both must outlive the object. Paths are recorded relative to `root`.
  RecordingFileOperations(FileOperations& operations, std::filesystem::path root);

  const std::map<std::string, FileRecord>& files() const { return files_; }

  int create(const std::filesystem::path& path) override;
  void write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) override;
  void sync(int descriptor, const std::filesystem::path& path) override;
  void close(int descriptor, const std::filesystem::path& path) override;
  void create_directory(const std::filesystem::path& path) override;
  void sync_directory(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void symlink(const std::filesystem::path& target, const std::filesystem::path& link) override;
  void remove_all(const std::filesystem::path& path) override;

 private:
  struct OpenFile {
    Hasher hasher;
    std::uint64_t size = 0;
  };
  FileOperations& operations_;
  std::filesystem::path root_;
  std::map<int, OpenFile> open_;
  std::map<std::string, FileRecord> files_;
};

}  // namespace tessera::checkpoint
