#pragma once

#include <filesystem>
#include <string_view>

#include "tessera/core/file.h"

/// Small helpers of everything that writes a directory aside.
namespace tessera::checkpoint {

/// Writes and syncs a new file.
void write_text(FileOperations& operations, const std::filesystem::path& path, std::string_view text);
/// Copies one file's content into a new, synced file.
void copy_file(FileOperations& operations, const std::filesystem::path& from, const std::filesystem::path& to);

/// Removes what was half written when an exception passes; says nothing when even that fails.
class RemoveUnlessKept {
 public:
  RemoveUnlessKept(FileOperations& operations, std::filesystem::path path);
  ~RemoveUnlessKept();
  RemoveUnlessKept(const RemoveUnlessKept&) = delete;
  RemoveUnlessKept& operator=(const RemoveUnlessKept&) = delete;
  void keep() { kept_ = true; }

 private:
  FileOperations& operations_;
  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace tessera::checkpoint
