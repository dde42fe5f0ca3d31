#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// A whole file mapped read-only. Movable; the bytes live as long as the object.
/// Throws UserError when the file is missing or unreadable.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// Tells the kernel that this range has been read once and may leave memory.
  void drop(std::size_t offset, std::size_t size) const;

 private:
  std::filesystem::path path_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The whole file as text. Throws UserError when it cannot be read.
std::string read_text_file(const std::filesystem::path& path);

/// The file operations that decide whether a save survives a crash. Saving code takes this interface, so that a test can
/// fail each call in turn. Every call throws Failure with path and reason (errno) when it fails.
class FileOperations {
 public:
  virtual ~FileOperations() = default;
  virtual int create(const std::filesystem::path& path) = 0;  ///< a new, empty file; returns the descriptor
  /// A file that exists, to be written from byte `offset` on, past its end too: several processes may each write a part. Returns the descriptor.
  virtual int open_at(const std::filesystem::path& path, std::uint64_t offset) = 0;
  virtual void write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) = 0;  ///< all of them
  virtual void sync(int descriptor, const std::filesystem::path& path) = 0;                                     ///< fsync
  virtual void close(int descriptor, const std::filesystem::path& path) = 0;
  virtual void create_directory(const std::filesystem::path& path) = 0;  ///< it must not exist
  virtual void sync_directory(const std::filesystem::path& path) = 0;
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual void symlink(const std::filesystem::path& target, const std::filesystem::path& link) = 0;
  virtual void remove_all(const std::filesystem::path& path) = 0;
};

/// The real thing.
std::unique_ptr<FileOperations> posix_file_operations();

/// Sequential writer of one new file, or of an existing one from `offset` on. `finish` syncs and closes; without it the destructor closes and the
/// content counts as incomplete.
class FileWriter {
 public:
  FileWriter(FileOperations& operations, std::filesystem::path path);
  FileWriter(FileOperations& operations, std::filesystem::path path, std::uint64_t offset);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  std::uint64_t size() const { return size_; }  ///< of what was written here
  void finish();

 private:
  FileOperations& operations_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Writes a file next to `path`, syncs, and renames over it: readers see the old text or the new, never a part.
void replace_file(FileOperations& operations, const std::filesystem::path& path, std::string_view text);
/// Points the symbolic link at `target` (relative to the link's folder) in one step.
void replace_symlink(FileOperations& operations, const std::filesystem::path& target, const std::filesystem::path& link);

}  // namespace tessera
