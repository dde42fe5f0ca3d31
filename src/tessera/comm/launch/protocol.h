#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

/// What launcher and ranks say to each other over a Unix socket of packets (SOCK_SEQPACKET, an abstract name). Internal to this folder.
///   rank -> launcher   "rank 3", once; "error 2 TEXT", with the status that it will exit with; "exit 2", last
///   launcher -> rank   one packet of one byte in answer to "rank 3", carrying two file descriptors: standard output and standard error
/// The end of either side ends the connection, which is how the other learns of its death.
namespace tessera::launch {

/// Holds the socket's name in the environment of ranks.
inline constexpr const char* kLauncherVariable = "TESSERA_LAUNCHER";
/// A longer error is cut: packets are sent whole.
inline constexpr std::size_t kLongestMessage = 32768;

/// Owns a file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void reset() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

/// The address of an abstract Unix socket: no file, gone with its owner.
struct AbstractAddress {
  explicit AbstractAddress(std::string_view name) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t length = 0;
};

}  // namespace tessera::launch
