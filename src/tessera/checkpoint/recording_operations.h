#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tessera/checkpoint/hash.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/core/forwarding_operations.h"

namespace tessera::checkpoint {

/// Passes every call on to `operations` and keeps the size and hash of each file that was created, written and closed: whatever writes a file need
/// not know that a manifest will list it. Parts of existing files (open_at) are not recorded: who writes parts hashes them.
class RecordingFileOperations : public ForwardingFileOperations {
 public:
  /// Both must outlive the object. Paths are recorded relative to `root`.
  RecordingFileOperations(FileOperations& operations, std::filesystem::path root);

  const std::map<std::string, FileRecord>& files() const { return files_; }

  int create(const std::filesystem::path& path) override;
  void write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) override;
  void close(int descriptor, const std::filesystem::path& path) override;

 private:
  std::filesystem::path root_;
  std::map<int, FileHasher> open_;
  std::map<std::string, FileRecord> files_;
};

}  // namespace tessera::checkpoint
