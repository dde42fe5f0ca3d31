#include "tessera/checkpoint/files.h"

#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/writable.h"

namespace tessera::checkpoint {

namespace {

void make_executable(const std::filesystem::path& path) {
  using std::filesystem::perms;
  std::error_code ignored;  // `sh SCRIPT` works all the same
  const perms readers = std::filesystem::status(path, ignored).permissions() & (perms::owner_read | perms::group_read | perms::others_read);
  std::filesystem::permissions(path, static_cast<perms>(static_cast<unsigned>(readers) >> 2U), std::filesystem::perm_options::add, ignored);
}

bool is_executable(const std::filesystem::path& path) {
  std::error_code ignored;
  return (std::filesystem::status(path, ignored).permissions() & std::filesystem::perms::owner_exec) != std::filesystem::perms::none;
}

}  // namespace

void write_text(FileOperations& operations, const std::filesystem::path& path, std::string_view text) {
  FileWriter writer(operations, path);
  writer.write(text);
  writer.finish();
}

void write_script(FileOperations& operations, const std::filesystem::path& path, std::string_view text) {
  FileWriter writer(operations, path);
  writer.write(text);
  make_executable(path);
  writer.finish();
}

void copy_file(FileOperations& operations, const std::filesystem::path& from, const std::filesystem::path& to) {
  const MappedFile file(from);
  FileWriter writer(operations, to);
  writer.write(file.bytes());
  if (is_executable(from)) make_executable(to);
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

namespace {

std::filesystem::path without_trailing_slash(const std::filesystem::path& path) {
  const std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

std::filesystem::path absent(const std::filesystem::path& path) {
  if (std::filesystem::exists(std::filesystem::symlink_status(path)))
    throw UserError(Problem{path.string(), "exists already", "nothing is overwritten", "remove it or choose another name"});
  check_can_create(without_trailing_slash(path));
  return path;
}

}  // namespace

NewDirectory::NewDirectory(FileOperations& operations, const std::filesystem::path& path)
    : operations_(operations), target_(without_trailing_slash(absent(path))), aside_(aside(path)), half_written_(operations, aside_) {
  operations.remove_all(aside_);
  operations.create_directory(aside_);
}

std::filesystem::path NewDirectory::aside(const std::filesystem::path& path) {
  const std::filesystem::path target = without_trailing_slash(path);
  return target.parent_path() / ("." + target.filename().string() + ".saving");
}

void NewDirectory::complete() {
  operations_.sync_directory(aside_);
  operations_.rename(aside_, target_);
  half_written_.keep();
  operations_.sync_directory(target_.parent_path());
}

}  // namespace tessera::checkpoint
