#include "tessera/comm/launch/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <thread>

#include "tessera/comm/launch/protocol.h"
#include "tessera/core/error.h"
#include "tessera/core/logging.h"
#include "tessera/core/terminal.h"
#include "tessera/core/text.h"

namespace tessera::launch {
namespace {

/// Receives the launcher's standard output and error.
std::array<int, 2> receive_outputs(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  std::array<int, 2> outputs{-1, -1};
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return outputs;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) std::memcpy(outputs.data(), CMSG_DATA(header), sizeof(outputs));
  return outputs;
}

void replace(int standard, int number) {
  if (number < 0) return;
  ::dup2(number, standard);
  ::close(number);
}

void write_whole(int output, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(output, text.data(), text.size());
    if (written <= 0) return;  // nobody is left to tell
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

/// The connection to the launcher. A thread waits for its end, because nothing else would notice while this rank computes or waits for a peer.
class RankProcess::Link {
 public:
  Link(const std::string& name, std::int64_t rank) : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), stop_(::eventfd(0, EFD_CLOEXEC)) {
    const AbstractAddress address(name);
    if (::connect(socket_.get(), address.get(), address.length) != 0)
      throw UserError({"", std::string(kLauncherVariable) + "=" + name + ": there is no such launcher", "a launcher sets it for the ranks it starts",
                       "unset it"});
    say(fmt::format("rank {}", rank));
    const std::array<int, 2> outputs = receive_outputs(socket_.get());
    replace(STDOUT_FILENO, outputs[0]);
    replace(STDERR_FILENO, outputs[1]);
    watcher_ = std::thread([this] { watch(); });
  }
  ~Link() {
    const std::uint64_t one = 1;
    write_whole(stop_.get(), {reinterpret_cast<const char*>(&one), sizeof(one)});
    watcher_.join();
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Whether the launcher got all of it.
  bool say(std::string_view text) {
    const ssize_t sent = ::send(socket_.get(), text.data(), std::min(text.size(), kLongestMessage), MSG_NOSIGNAL);
    return sent == static_cast<ssize_t>(text.size());
  }

 private:
  void watch() const {
    std::array<pollfd, 2> waiting{pollfd{socket_.get(), POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
    while (::poll(waiting.data(), waiting.size(), -1) < 0) {
    }
    if (waiting[1].revents == 0) ::kill(::getpid(), SIGKILL);  // the launcher is gone: there is nothing to save for and nobody to tell
  }

  FileDescriptor socket_;
  FileDescriptor stop_;
  std::thread watcher_;
};

RankProcess::RankProcess() : error_output_(STDERR_FILENO) {}

RankProcess::RankProcess(const Environment& environment, bool by_torchrun)
    : environment_(by_torchrun ? torchrun_environment(environment) : rank_environment(environment)), error_output_(STDERR_FILENO) {
  if (!environment_) return;
  if (const auto launcher = environment(kLauncherVariable)) link_ = std::make_unique<Link>(*launcher, environment_->rank);
  if (environment_->rank == 0) return;
  replace(STDOUT_FILENO, ::open("/dev/null", O_WRONLY | O_CLOEXEC));
  log::send_to({.terminal = false, .file = std::nullopt});
}

RankProcess::~RankProcess() {
  if (log_file_ >= 0) ::close(log_file_);
}

void RankProcess::log_to(const std::filesystem::path& directory) {
  const std::int64_t rank = environment_ ? environment_->rank : 0;
  const std::filesystem::path file = directory / fmt::format("rank_{}.log", rank);
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  log_file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (log_file_ < 0) throw UserError({file.string(), fmt::format("cannot be written: {}", std::strerror(errno)), "", "give another --log-dir"});
  if (rank == 0) return log::send_to({.terminal = true, .file = file});
  error_output_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(log_file_, STDERR_FILENO);  // log lines, but also what libraries print and a crash's last words
  log::send_to({.terminal = true, .file = std::nullopt});
}

void RankProcess::error(std::string_view text, int status) {
  if (log_file_ >= 0) write_whole(log_file_, std::string(text) + "\n");
  if (link_ && link_->say(fmt::format("error {} {}", status, text))) return;  // the launcher prints it, once for all ranks that say the same
  const std::string prefix = is_one_of_several() ? fmt::format("[rank {}] ", environment_->rank) : "";
  std::string lines;
  for (const std::string& line : split(text, '\n')) lines += prefix + highlight_error(line) + "\n";
  std::fflush(stderr);
  // One write: lines of several ranks do not mix.
  error_output_ == STDERR_FILENO ? void(std::fputs(lines.c_str(), stderr)) : write_whole(error_output_, lines);
}

void RankProcess::goodbye(int status) {
  std::fflush(nullptr);
  if (link_) link_->say(fmt::format("exit {}", status));
}

}  // namespace tessera::launch
