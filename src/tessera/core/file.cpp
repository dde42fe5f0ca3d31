#include "tessera/core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/core/error.h"

namespace tessera {
namespace {

constexpr const char* kNameAFile = "name a file";

std::string reason() { return std::strerror(errno); }

std::string remedy(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another directory";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose another directory or fix its permissions";
    case ENOENT:
    case ENOTDIR:
      return "check the path: only its last part is created";
    default:
      return "";
  }
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& action) {
  const std::string fix = remedy(errno), why = reason();
  throw Failure({path.string(), "cannot " + action + ": " + why, "", fix});
}

[[noreturn]] void unreadable(const std::filesystem::path& path) {
  const std::string fix = errno == ENOENT || errno == ENOTDIR ? "check the path, and that all files are there"
                          : errno == EACCES                   ? "fix its permissions"
                          : errno == EISDIR                   ? kNameAFile
                                                              : "check the path, and the disk that holds the file";
  throw UserError({path.string(), "cannot read the file: " + reason(), "", fix});
}

constexpr std::size_t kWriteBytes = std::size_t{8} << 20;

/// The disk begins while the rest is still being made; `sync` would otherwise find everything undone. A hint: it may fail, and promises nothing.
void start_writing_back(int descriptor) { ::sync_file_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE); }

class PosixFileOperations : public FileOperations {
 public:
  int create(const std::filesystem::path& path) override {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0) fail(path, "create the file");
    return descriptor;
  }
  int open_at(const std::filesystem::path& path, std::uint64_t offset) override {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) fail(path, "open the file");
    if (::lseek(descriptor, static_cast<off_t>(offset), SEEK_SET) >= 0) return descriptor;
    ::close(descriptor);
    fail(path, "seek");
  }
  void write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor, bytes.data(), std::min(bytes.size(), kWriteBytes));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(path, "write");
      if (static_cast<std::size_t>(written) == kWriteBytes) start_writing_back(descriptor);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }
  void sync(int descriptor, const std::filesystem::path& path) override {
    if (::fsync(descriptor) != 0) fail(path, "sync");
  }
  void close(int descriptor, const std::filesystem::path& path) override {
    if (::close(descriptor) != 0) fail(path, "close");
  }
  void create_directory(const std::filesystem::path& path) override {
    if (::mkdir(path.c_str(), 0755) != 0) fail(path, "create the directory");
  }
  void sync_directory(const std::filesystem::path& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail(path, "open the directory");
    const bool synced = ::fsync(descriptor) == 0;
    ::close(descriptor);
    if (!synced) fail(path, "sync the directory");
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail(to, "rename " + from.filename().string());
  }
  void symlink(const std::filesystem::path& target, const std::filesystem::path& link) override {
    if (::symlink(target.c_str(), link.c_str()) != 0) fail(link, "create the link");
  }
  void remove_all(const std::filesystem::path& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) throw Failure({path.string(), "cannot remove: " + error.message(), "", ""});
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) unreadable(path);
  struct stat status{};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    if (!S_ISDIR(status.st_mode)) throw UserError({path.string(), "cannot read the file: it is not a regular file", "", kNameAFile});
    errno = EISDIR;
    unreadable(path);
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int number = errno;  // close may change it
  ::close(descriptor);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    errno = number;
    unreadable(path);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::drop(std::size_t offset, std::size_t size) const {
  // Only whole pages inside the range: a neighbour may still need the shared ones.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = (offset + page - 1) / page * page;
  const std::size_t end = (offset + size) / page * page;
  if (begin < end && end <= size_) ::madvise(static_cast<char*>(data_) + begin, end - begin, MADV_DONTNEED);
}

std::string read_text_file(const std::filesystem::path& path) { return std::string(MappedFile(path).text()); }

std::unique_ptr<FileOperations> posix_file_operations() { return std::make_unique<PosixFileOperations>(); }

FileWriter::FileWriter(FileOperations& operations, std::filesystem::path path)
    : operations_(operations), path_(std::move(path)), descriptor_(operations.create(path_)) {}

FileWriter::FileWriter(FileOperations& operations, std::filesystem::path path, std::uint64_t offset)
    : operations_(operations), path_(std::move(path)), descriptor_(operations.open_at(path_, offset)) {}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  operations_.write(descriptor_, bytes, path_);
  size_ += bytes.size();
}

void FileWriter::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void FileWriter::finish() {
  operations_.sync(descriptor_, path_);
  operations_.close(std::exchange(descriptor_, -1), path_);
}

void replace_file(FileOperations& operations, const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path aside = path;
  aside += ".new";
  try {
    FileWriter writer(operations, aside);
    writer.write(text);
    writer.finish();
    operations.rename(aside, path);
  } catch (...) {
    std::error_code ignored;  // what is reported is why it could not be written
    std::filesystem::remove(aside, ignored);
    throw;
  }
}

void replace_symlink(FileOperations& operations, const std::filesystem::path& target, const std::filesystem::path& link) {
  std::filesystem::path aside = link;
  aside += ".new";
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(aside))) operations.remove_all(aside);
  operations.symlink(target, aside);
  operations.rename(aside, link);
}

}  // namespace tessera
