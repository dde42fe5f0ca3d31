#pragma once

#include "tessera/core/error.h"
#include "tessera/core/file.h"

namespace tessera::test {

/// Passes everything on to `real`, except that the `failing`-th operation (from 1) and all after it throw Failure, as after a crash or on a full
/// disk. A failing write first writes half of its bytes.
class FaultOperations : public FileOperations {
 public:
  FaultOperations(FileOperations& real, int failing) : real_(real), remaining_(failing) {}

  /// How many operations have been asked for.
  int count() const { return count_; }

  int create(const std::filesystem::path& path) override {
    step("create", path);
    return real_.create(path);
  }
  void write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) override {
    if (remaining_ == 1) real_.write(descriptor, bytes.first(bytes.size() / 2), path);
    step("write", path);
    real_.write(descriptor, bytes, path);
  }
  void sync(int descriptor, const std::filesystem::path& path) override {
    step("sync", path);
    real_.sync(descriptor, path);
  }
  void close(int descriptor, const std::filesystem::path& path) override {
    // The descriptor is gone either way, as after a failing close(2).
    real_.close(descriptor, path);
    step("close", path);
  }
  void create_directory(const std::filesystem::path& path) override {
    step("create directory", path);
    real_.create_directory(path);
  }
  void sync_directory(const std::filesystem::path& path) override {
    step("sync directory", path);
    real_.sync_directory(path);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    step("rename", to);
    real_.rename(from, to);
  }
  void symlink(const std::filesystem::path& target, const std::filesystem::path& link) override {
    step("symlink", link);
    real_.symlink(target, link);
  }
  void remove_all(const std::filesystem::path& path) override {
    step("remove", path);
    real_.remove_all(path);
  }

 private:
  void step(const char* operation, const std::filesystem::path& path) {
    ++count_;
    if (remaining_ > 1) {
      --remaining_;
      return;
    }
    remaining_ = 1;
    throw Failure({path.string(), std::string("injected failure of ") + operation, "", ""});
  }

  FileOperations& real_;
  int remaining_;
  int count_ = 0;
};

}  // namespace tessera::test
