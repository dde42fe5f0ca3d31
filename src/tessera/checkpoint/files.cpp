#include "tessera/checkpoint/files.h"

#include <utility>

namespace tessera::checkpoint {

void write_text(FileOperations& operations, const std::filesystem::path& path, std::string_view text) {
  FileWriter writer(operations, path);
  writer.write(text);
  writer.finish();
}

void copy_file(FileOperations& operations, const std::filesystem::path& from, const std::filesystem::path& to) {
  const MappedFile file(from);
  FileWriter writer(operations, to);
  writer.write(file.bytes());
  writer.finish();
}

RemoveUnlessKept::RemoveUnlessKept(FileOperations& operations, std::filesystem::path path) : operations_(operations), path_(std::move(path)) {}

RemoveUnlessKept::~RemoveUnlessKept() {
  if (kept_) return;
  try {
    operations_.remove_all(path_);
  } catch (...) {
    // The error that brought us here is the one to report; the next save removes the rest.
  }
}

}  // namespace tessera::checkpoint
