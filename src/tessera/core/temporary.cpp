#include "tessera/core/temporary.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tessera/core/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// What mkstemp and mkdtemp make a name of.
std::string name_template() { return (fs::temp_directory_path() / "tessera-XXXXXX").string(); }

}  // namespace

TemporaryFile::TemporaryFile(std::string purpose) : purpose_(std::move(purpose)), path_(name_template()), descriptor_(::mkstemp(path_.data())) {
  if (descriptor_ < 0) fail("create");
}

TemporaryFile::~TemporaryFile() {
  ::close(descriptor_);
  ::unlink(path_.c_str());
}

void TemporaryFile::write(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void TemporaryFile::fail(const char* action) const {
  throw Failure({path_, fmt::format("cannot {} the temporary file: {}", action, std::strerror(errno)), purpose_,
                 "free some space, or set TMPDIR to another folder"});
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = name_template();
  if (::mkdtemp(name.data()) == nullptr) throw Failure({name, "cannot create a temporary directory", "", "set TMPDIR to a writable directory"});
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace tessera
