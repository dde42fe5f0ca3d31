#include "tessera/core/writable.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "tessera/core/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// The directory that something at `path` would be created in.
fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

}  // namespace

std::string why_not_writable(const fs::path& directory) {
  std::error_code error;
  fs::path existing = fs::absolute(directory).lexically_normal();
  fs::file_status status = fs::status(existing, error);
  while (status.type() == fs::file_type::not_found && existing.has_relative_path()) {
    if (fs::is_symlink(fs::symlink_status(existing, error)))
      return existing.string() + " is a link to " + fs::read_symlink(existing).string() + ", which does not exist";
    existing = parent_of(existing);
    status = fs::status(existing, error);
  }
  if (status.type() == fs::file_type::none) return existing.string() + ": " + error.message();
  if (!fs::is_directory(status)) return existing.string() + " is not a directory";
  if (::access(existing.c_str(), W_OK | X_OK) != 0) return existing.string() + ": " + std::strerror(errno);
  return "";
}

void check_can_create(const fs::path& path) {
  const fs::path parent = parent_of(path);
  std::error_code error;
  if (!fs::is_directory(parent, error))
    throw UserError({path.string(), "there is no directory " + parent.string(), "only the last part of the path is created",
                     "create that directory or choose another place"});
  if (const std::string why = why_not_writable(parent); !why.empty())
    throw UserError({path.string(), "cannot be created: " + why, "", "choose another directory or fix its permissions"});
}

}  // namespace tessera
