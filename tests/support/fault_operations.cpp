#include "support/fault_operations.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "tessera/core/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* action, const fs::path& path, int number) {
  throw Failure({path.string(), std::string("cannot ") + action + ": " + std::strerror(number), "", ""});
}

/// Nothing of the process runs on: no destructor, no handler.
void die() { ::kill(::getpid(), SIGKILL); }

}  // namespace

void FaultOperations::visit(const char* action, const fs::path& path, const std::function<void()>& act, const std::function<void()>& half) {
  const int number = count_++;
  const bool later = fault_.lasting && fault_.at >= 0 && number > fault_.at;
  if (number != fault_.at && !later) return act();
  switch (fault_.kind) {
    case FaultKind::NoSpace:
      if (!later) half();
      fail(action, path, ENOSPC);
    case FaultKind::InputOutput:
      fail(action, path, EIO);
    case FaultKind::KillBefore:
      return die();
    case FaultKind::KillHalfway:
      half();
      return die();
    case FaultKind::KillAfter:
      act();
      return die();
  }
}

int FaultOperations::create(const fs::path& path) {
  int descriptor = -1;
  visit("create the file", path, [&] { descriptor = inner_.create(path); });
  return descriptor;
}

int FaultOperations::open_at(const fs::path& path, std::uint64_t offset) {
  int descriptor = -1;
  visit("open the file", path, [&] { descriptor = inner_.open_at(path, offset); });
  return descriptor;
}

void FaultOperations::write(int descriptor, std::span<const std::byte> bytes, const fs::path& path) {
  visit("write", path, [&] { inner_.write(descriptor, bytes, path); }, [&] { inner_.write(descriptor, bytes.first(bytes.size() / 2), path); });
}

void FaultOperations::sync(int descriptor, const fs::path& path) {
  visit("sync", path, [&] { inner_.sync(descriptor, path); });
}

void FaultOperations::close(int descriptor, const fs::path& path) {
  bool closed = false;
  const auto act = [&] {
    closed = true;
    inner_.close(descriptor, path);
  };
  try {
    visit("close", path, act);
  } catch (const Failure&) {
    if (!closed) inner_.close(descriptor, path);  // the descriptor is gone either way, as after a failing close(2)
    throw;
  }
}

void FaultOperations::create_directory(const fs::path& path) {
  visit("create the directory", path, [&] { inner_.create_directory(path); });
}

void FaultOperations::sync_directory(const fs::path& path) {
  visit("sync the directory", path, [&] { inner_.sync_directory(path); });
}

void FaultOperations::rename(const fs::path& from, const fs::path& to) {
  visit("rename", to, [&] { inner_.rename(from, to); });
}

void FaultOperations::symlink(const fs::path& target, const fs::path& link) {
  visit("create the link", link, [&] { inner_.symlink(target, link); });
}

void FaultOperations::remove_all(const fs::path& path) {
  const auto half = [&] {
    if (!fs::is_directory(fs::symlink_status(path))) return;
    bool removed = true;  // every second entry
    for (const fs::directory_entry& entry : fs::directory_iterator(path))
      if ((removed = !removed)) fs::remove_all(entry.path());
  };
  visit("remove", path, [&] { inner_.remove_all(path); }, half);
}

}  // namespace tessera
