#pragma once

#include "tessera/core/file.h"

namespace tessera {

/// Passes every call on; the base of what does something more with some of them.
class ForwardingFileOperations : public FileOperations {
 public:
  /// `inner` must outlive the object.
  explicit ForwardingFileOperations(FileOperations& inner) : inner_(inner) {}

  int create(const std::filesystem::path& path) override { return inner_.create(path); }
  int open_at(const std::filesystem::path& path, std::uint64_t offset) override { return inner_.open_at(path, offset); }
  void write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) override { inner_.write(descriptor, bytes, path); }
  void sync(int descriptor, const std::filesystem::path& path) override { inner_.sync(descriptor, path); }
  void close(int descriptor, const std::filesystem::path& path) override { inner_.close(descriptor, path); }
  void create_directory(const std::filesystem::path& path) override { inner_.create_directory(path); }
  void sync_directory(const std::filesystem::path& path) override { inner_.sync_directory(path); }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override { inner_.rename(from, to); }
  void symlink(const std::filesystem::path& target, const std::filesystem::path& link) override { inner_.symlink(target, link); }
  void remove_all(const std::filesystem::path& path) override { inner_.remove_all(path); }

 private:
  FileOperations& inner_;
};

}  // namespace tessera
