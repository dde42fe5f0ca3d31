#include "tessera/checkpoint/recording_operations.h"

#include <utility>

namespace tessera::checkpoint {

RecordingFileOperations::RecordingFileOperations(FileOperations& operations, std::filesystem::path root)
    : operations_(operations), root_(std::move(root)) {}

int RecordingFileOperations::create(const std::filesystem::path& path) {
  const int descriptor = operations_.create(path);
  open_.insert_or_assign(descriptor, OpenFile{});
  return descriptor;
}

void RecordingFileOperations::write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  OpenFile& file = open_.at(descriptor);
  const std::future<void> hashing = update_in_background(file.hasher, bytes);
  operations_.write(descriptor, bytes, path);
  file.size += bytes.size();
}

void RecordingFileOperations::close(int descriptor, const std::filesystem::path& path) {
  operations_.close(descriptor, path);
  const auto file = open_.extract(descriptor);
  files_[path.lexically_relative(root_).generic_string()] = {file.mapped().size, file.mapped().hasher.hex()};
}

void RecordingFileOperations::sync(int descriptor, const std::filesystem::path& path) { operations_.sync(descriptor, path); }
void RecordingFileOperations::create_directory(const std::filesystem::path& path) { operations_.create_directory(path); }
void RecordingFileOperations::sync_directory(const std::filesystem::path& path) { operations_.sync_directory(path); }
void RecordingFileOperations::rename(const std::filesystem::path& from, const std::filesystem::path& to) { operations_.rename(from, to); }
void RecordingFileOperations::symlink(const std::filesystem::path& target, const std::filesystem::path& link) { operations_.symlink(target, link); }
void RecordingFileOperations::remove_all(const std::filesystem::path& path) { operations_.remove_all(path); }

}  // namespace tessera::checkpoint
