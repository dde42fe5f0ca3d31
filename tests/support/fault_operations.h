#pragma once

#include <cstdint>
#include <functional>

#include "tessera/core/file.h"

namespace tessera {

/// What happens at one file operation.
enum class FaultKind : std::uint8_t {
  NoSpace,      ///< it fails with ENOSPC, a write after half of its bytes
  InputOutput,  ///< it fails with EIO and has done nothing
  KillBefore,   ///< the process gets SIGKILL before it,
  KillHalfway,  ///< … after half of a write, or of the removal of a directory,
  KillAfter,    ///< … when it is done
};

struct Fault {
  int at = -1;  ///< number of the operation, from 0; none when negative
  FaultKind kind = FaultKind::NoSpace;
  bool lasting = false;  ///< all later operations fail as well, as on a disk that stays full
};

/// Passes every operation on to `inner`, except that one goes wrong: for tests that end a save at each of its operations in turn. Operations may come
/// from one thread at a time.
class FaultOperations : public FileOperations {
 public:
  /// `inner` must outlive the object.
  FaultOperations(FileOperations& inner, Fault fault) : inner_(inner), fault_(fault) {}

  /// How many operations have been asked for.
  int count() const { return count_; }

  int create(const std::filesystem::path& path) override;
  int open_at(const std::filesystem::path& path, std::uint64_t offset) override;
  void write(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path) override;
  void sync(int descriptor, const std::filesystem::path& path) override;
  void close(int descriptor, const std::filesystem::path& path) override;
  void create_directory(const std::filesystem::path& path) override;
  void sync_directory(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void symlink(const std::filesystem::path& target, const std::filesystem::path& link) override;
  void remove_all(const std::filesystem::path& path) override;

 private:
  /// Does `act`, or what is to happen instead; `half` is the part of it that a crash may leave.
  void visit(const char* action, const std::filesystem::path& path, const std::function<void()>& act, const std::function<void()>& half = [] {});

  FileOperations& inner_;
  Fault fault_;
  int count_ = 0;
};

}  // namespace tessera
