#include "tessera/checkpoint/recording_operations.h"

#include <utility>

namespace tessera::checkpoint {

RecordingFileOperations::RecordingFileOperations(FileOperations& operations, std::filesystem::path root)
    : ForwardingFileOperations(operations), root_(std::move(root)) {}

int RecordingFileOperations::create(const std::filesystem::path& path) {
  const int descriptor = ForwardingFileOperations::create(path);
  open_.insert_or_assign(descriptor, FileHasher());
  return descriptor;
}

void RecordingFileOperations::write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const auto recorded = open_.find(descriptor);
  if (recorded == open_.end()) return ForwardingFileOperations::write(descriptor, bytes, path);
  update_beside(recorded->second, bytes, [&] { ForwardingFileOperations::write(descriptor, bytes, path); });
}

void RecordingFileOperations::close(int descriptor, const std::filesystem::path& path) {
  // Forgotten first: even a failing close gives the number away.
  const auto recorded = open_.extract(descriptor);
  ForwardingFileOperations::close(descriptor, path);
  if (recorded.empty()) return;
  files_[path.lexically_relative(root_).generic_string()] = {recorded.mapped().size(), recorded.mapped().hex()};
}

}  // namespace tessera::checkpoint
