#include "tessera/comm/launch/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>

#include "tessera/core/error.h"
#include "tessera/core/interrupt.h"
#include "tessera/core/terminal.h"

namespace tessera::launch {
namespace {

using namespace std::chrono_literals;

/// After a rank failed, the others have this long to end by themselves (mpirun ends them); then they are killed.
constexpr auto kPatience = 3s;
/// mpirun ends when its ranks have ended; one that does not is killed after this.
constexpr auto kLastPatience = 2s;
constexpr std::size_t kQuotedLines = 12;
constexpr std::size_t kMostOutput = 65536;

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&set, number);
  return set;
}

/// Carries the two descriptors of a rank's standard output and error over a socket.
void send_outputs(int socket, std::array<int, 2> outputs) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(outputs))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(outputs));
  std::memcpy(CMSG_DATA(header), outputs.data(), sizeof(outputs));
  ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

/// No other launcher has it, also none in another container that shares the network.
std::string unused_name() {
  std::random_device random;
  return fmt::format("tessera-{}-{:08x}{:08x}", ::getpid(), random(), random());
}

/// Takes the "rank 3: " out of an error that a rank repeats for another, and returns that rank's number; `rank` for an error of its own.
std::int64_t take_origin(std::string& error, std::int64_t rank) {
  static const std::regex words(R"(^error: rank (\d+): )");
  std::smatch found;
  if (!std::regex_search(error, found, words) || found[1] == std::to_string(rank)) return rank;
  const std::int64_t origin = std::stoll(found[1]);
  error = "error: " + found.suffix().str();
  return origin;
}

std::int64_t number_in(std::string_view text) {
  std::int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string describe_signal(int number) { return fmt::format("signal {} ({})", number, ::strsignal(number)); }

/// What is there to read; nothing at the end of the stream or when there is nothing yet (`ended` tells which).
std::string read_some(int descriptor, bool& ended) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
  ended = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

/// Whether the other side is gone and everything it said has been read.
bool is_at_end(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

std::vector<std::string> last_lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > kQuotedLines) lines.pop_front();
  }
  return {lines.begin(), lines.end()};
}

}  // namespace

Supervisor::Supervisor(const LaunchRequest& request)
    : request_(request), name_(unused_name()), listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  const AbstractAddress address(name_);
  if (::bind(listener_.get(), address.get(), address.length) != 0 || ::listen(listener_.get(), SOMAXCONN) != 0)
    throw Failure({"", fmt::format("cannot listen for ranks: {}", std::strerror(errno)), "", ""});
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Supervisor::~Supervisor() {
  const sigset_t set = watched_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

int Supervisor::watch(ChildProcess mpirun) {
  mpirun_ = std::move(mpirun);
  while (!finished()) {
    wait_for_events();
    enforce_deadline();
  }
  return conclude();
}

/// Connections are read before new ones are taken and before mpirun's end is seen, so that nothing a rank said is missed.
void Supervisor::wait_for_events() {
  std::vector<pollfd> waiting{{listener_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {mpirun_.output.get(), POLLIN, 0}};
  for (const auto& rank : ranks_) {
    waiting.push_back({rank->socket.get(), POLLIN, 0});
    waiting.push_back({rank->lines.get(), POLLIN, 0});
  }
  if (::poll(waiting.data(), waiting.size(), 200) <= 0) return;
  // Who died without a word comes before those who complain about it.
  for (const bool only_the_dead : {true, false}) {
    for (std::size_t i = 3; i < waiting.size(); i += 2) {
      Rank& rank = *ranks_[(i - 3) / 2];
      if (waiting[i].revents == 0 || !rank.socket.is_open() || (only_the_dead && !is_at_end(waiting[i].fd))) continue;
      hear(rank);
    }
  }
  for (std::size_t i = 4; i < waiting.size(); i += 2)
    if (waiting[i].revents != 0) show_lines(*ranks_[(i - 4) / 2]);
  if (waiting[0].revents != 0) accept_rank();
  if (waiting[2].revents != 0) read_mpirun();
  if (waiting[1].revents != 0) take_signals();
}

void Supervisor::accept_rank() {
  FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (!socket.is_open() || ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != ::geteuid()) return;
  auto rank = std::make_unique<Rank>();
  rank->socket = std::move(socket);
  rank->pid = peer.pid;
  ranks_.push_back(std::move(rank));
}

void Supervisor::hear(Rank& rank) {
  std::string message(kLongestMessage, '\0');
  const ssize_t count = ::recv(rank.socket.get(), message.data(), message.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return lose(rank);
  message.resize(static_cast<std::size_t>(count));
  const std::string word = message.substr(0, message.find(' '));
  const std::string rest = message.substr(std::min(word.size() + 1, message.size()));
  if (word == "rank") greet(rank, rest);
  if (word == "error") report(rank, rest);
  if (word != "exit") return;
  rank.said_goodbye = true;
  const auto status = static_cast<int>(number_in(rest));
  if (cause_ && cause_->rank == rank.number) cause_->status = status;
  if (status != 0) fail(rank, fmt::format("error: it exited with status {}", status), status);
}

void Supervisor::greet(Rank& rank, const std::string& number) {
  rank.number = number_in(number);
  if (rank.number == 0) {
    send_outputs(rank.socket.get(), {STDOUT_FILENO, STDERR_FILENO});
  } else {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return send_outputs(rank.socket.get(), {STDOUT_FILENO, STDERR_FILENO});
    rank.lines = FileDescriptor(ends[0]);
    const FileDescriptor writing(ends[1]);
    ::fcntl(rank.lines.get(), F_SETFL, O_NONBLOCK);
    send_outputs(rank.socket.get(), {STDOUT_FILENO, writing.get()});
  }
  if (interrupted_by_ != 0) ::kill(rank.pid, SIGTERM);
}

/// Its process is gone.
void Supervisor::lose(Rank& rank) {
  show_lines(rank);
  rank.socket.reset();
  if (!rank.said_goodbye) fail(rank, "", 1);
}

/// What all ranks found, or one found and the others repeat, is said once: at the end.
void Supervisor::report(const Rank& rank, const std::string& message) {
  const std::string error = message.substr(message.find(' ') + 1);
  std::string text = error;
  const std::int64_t origin = take_origin(text, rank.number);
  fail(rank, text, static_cast<int>(number_in(message)));
  if (cause_->num_ranks == 0 && cause_->error == text) cause_->rank = origin;
  if (cause_->error == text) {
    if (origin == rank.number) ++cause_->num_ranks;
    return;
  }
  std::istringstream lines(error);
  for (std::string line; std::getline(lines, line);) fmt::print(stderr, "[rank {}] {}\n", rank.number, line);
}

void Supervisor::fail(const Rank& rank, std::string error, int status) {
  if (!deadline_) deadline_ = Clock::now() + kPatience;
  if (!cause_) cause_ = Cause{rank.number, std::move(error), {rank.last_lines.begin(), rank.last_lines.end()}, status};
}

void Supervisor::show_lines(Rank& rank) {
  bool ended = false;
  while (rank.lines.is_open()) {
    const std::string text = read_some(rank.lines.get(), ended);
    if (ended) rank.lines.reset();
    if (text.empty()) break;
    rank.partial_line += text;
    for (std::size_t end = rank.partial_line.find('\n'); end != std::string::npos; end = rank.partial_line.find('\n')) {
      show(rank, rank.partial_line.substr(0, end));
      rank.partial_line.erase(0, end + 1);
    }
  }
  if (ended && !rank.partial_line.empty()) show(rank, std::exchange(rank.partial_line, ""));
}

void Supervisor::show(Rank& rank, const std::string& line) {
  const std::string prefix = line.starts_with("[rank ") ? "" : fmt::format("[rank {}] ", rank.number);
  fmt::print(stderr, "{}{}\n", prefix, line);
  rank.last_lines.push_back(line);
  if (rank.last_lines.size() > kQuotedLines) rank.last_lines.pop_front();
}

void Supervisor::read_mpirun() {
  bool ended = false;
  mpirun_said_ += read_some(mpirun_.output.get(), ended);
  if (mpirun_said_.size() > kMostOutput) mpirun_said_.erase(0, mpirun_said_.size() - kMostOutput);
  if (ended) mpirun_.output.reset();
}

void Supervisor::take_signals() {
  signalfd_siginfo signal{};
  while (::read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
    const auto number = static_cast<int>(signal.ssi_signo);
    if (number == SIGCHLD) continue;  // below: several children's signals may have become one
    const bool first = interrupted_by_ == 0;
    if (first) interrupted_at_ = Clock::now();
    if (!first && Clock::now() - interrupted_at_ <= kSameRequest) continue;
    signal_ranks(first ? SIGTERM : SIGKILL);
    interrupted_by_ = number;
  }
  if (!mpirun_ended_ && ::waitpid(mpirun_.pid, &mpirun_status_, WNOHANG) == mpirun_.pid) {
    mpirun_ended_ = true;
    if (!deadline_) deadline_ = Clock::now() + kLastPatience;
    if (!cause_ && !mpirun_abandoned_ && WIFSIGNALED(mpirun_status_))
      cause_ = Cause{-1, "error: mpirun was killed by " + describe_signal(WTERMSIG(mpirun_status_)), {}, 1};
  }
}

void Supervisor::signal_ranks(int number) {
  for (const auto& rank : ranks_)
    if (rank->socket.is_open()) ::kill(rank->pid, number);
}

void Supervisor::enforce_deadline() {
  const bool all_ended = !ranks_.empty() && std::ranges::none_of(ranks_, [](const auto& rank) { return rank->socket.is_open(); });
  if (all_ended && !deadline_) deadline_ = Clock::now() + kPatience;
  if (!deadline_ || Clock::now() < *deadline_) return;
  const bool ranks_are_gone = std::ranges::none_of(ranks_, [](const auto& rank) { return rank->socket.is_open(); });
  signal_ranks(SIGKILL);
  if (ranks_are_gone && !mpirun_ended_) {
    mpirun_abandoned_ = !ranks_.empty();  // all ranks have ended, and said so or are the cause: what keeps mpirun is no concern of the run's
    ::kill(-mpirun_.pid, SIGKILL);
  }
  deadline_ = Clock::now() + kLastPatience;
}

bool Supervisor::finished() const {
  return mpirun_ended_ && std::ranges::none_of(ranks_, [](const auto& rank) { return rank->socket.is_open(); });
}

int Supervisor::conclude() {
  while (mpirun_.output.is_open()) {
    const std::size_t before = mpirun_said_.size();
    read_mpirun();
    if (mpirun_said_.size() == before) break;
  }
  if (interrupted_by_ != 0 && cause_ && cause_->error.empty()) {
    fmt::print(stderr, "error: stopped by {} before every rank could save\n", interrupted_by_ == SIGINT ? "SIGINT" : "SIGTERM");
    return 128 + interrupted_by_;
  }
  if (cause_) {
    print_cause(*cause_);
    return cause_->status == 0 ? 1 : cause_->status;
  }
  const bool good = mpirun_abandoned_ || (WIFEXITED(mpirun_status_) && WEXITSTATUS(mpirun_status_) == 0);
  if (good) return 0;
  fmt::print(stderr, "{}error: mpirun {}\n", mpirun_said_,
             WIFSIGNALED(mpirun_status_)
                 ? fmt::format("was killed by signal {} ({})", WTERMSIG(mpirun_status_), ::strsignal(WTERMSIG(mpirun_status_)))
                 : fmt::format("exited with status {}; its messages are above", WEXITSTATUS(mpirun_status_)));
  return 1;
}

void Supervisor::print_cause(const Cause& cause) const {
  std::fflush(stdout);
  const bool everywhere = cause.num_ranks == request_.num_ranks;
  if (cause.rank < 0 || everywhere) return fmt::print(stderr, "{}\n", highlight_error(cause.error));
  fmt::print(stderr, "{}\n",
             highlight_error(fmt::format("error: rank {} ended the run:{}", cause.rank, cause.error.empty() ? " " + death(cause) : "")));
  for (const std::string& line : quoted_lines(cause)) fmt::print(stderr, "  {}\n", line);
  std::fflush(stderr);
}

/// The socket only shows that a process is gone; mpirun says how.
std::string Supervisor::death(const Cause& cause) const {
  static const std::regex words(R"(rank (\d+)[^\n]*\n?[^\n]*exited on signal (\d+))");
  std::smatch found;
  if (!std::regex_search(mpirun_said_, found, words) || number_in(found[1].str()) != cause.rank) return "it died without a message";
  const auto number = static_cast<int>(number_in(found[2].str()));
  const std::string hint = number == SIGKILL ? ", as by kill -9 or when memory runs out" : "";
  return "it was killed by " + describe_signal(number) + hint;
}

std::vector<std::string> Supervisor::quoted_lines(const Cause& cause) const {
  std::vector<std::string> lines;
  if (!cause.error.empty()) {
    std::size_t begin = 0;
    for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
      end = cause.error.find('\n', begin);
      lines.push_back(cause.error.substr(begin, end - begin));
    }
    return lines;
  }
  lines = cause.last_lines;
  if (lines.empty() && request_.log_directory) lines = last_lines_of(*request_.log_directory / fmt::format("rank_{}.log", cause.rank));
  return lines;
}

}  // namespace tessera::launch
