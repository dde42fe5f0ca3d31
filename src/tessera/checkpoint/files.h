#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "tessera/core/file.h"

/// Small helpers of everything that writes a directory aside.
namespace tessera::checkpoint {

/// Told from time to time how many more bytes are done; may be empty.
using Progress = std::function<void(std::uint64_t bytes)>;

/// Writes and syncs a new file.
void write_text(FileOperations& operations, const std::filesystem::path& path, std::string_view text);
/// The same; whoever may read the file may run it, where the file system knows of that.
void write_script(FileOperations& operations, const std::filesystem::path& path, std::string_view text);
/// Copies one file's content into a new, synced file, which can be run if that one can.
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

/// A directory that is complete when it appears: it is filled under another name beside it, then synced and renamed. What is half written goes with
/// the object.
class NewDirectory {
 public:
  /// UserError when `path` exists.
  NewDirectory(FileOperations& operations, const std::filesystem::path& path);
  /// Where to write.
  const std::filesystem::path& aside() const { return aside_; }
  static std::filesystem::path aside(const std::filesystem::path& path);
  /// Puts it in its place.
  void complete();

 private:
  FileOperations& operations_;
  std::filesystem::path target_;
  std::filesystem::path aside_;
  RemoveUnlessKept half_written_;
};

}  // namespace tessera::checkpoint
