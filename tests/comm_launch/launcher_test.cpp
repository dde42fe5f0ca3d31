// Real launches through mpirun of ranks that end in every way. Each is bounded in time: a launcher that hangs is killed and fails the test.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "support/support.h"

namespace tessera::launch {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr auto kLongest = 20s;

/// Whether `done` becomes true in time.
bool eventually(const std::function<bool()>& done, Clock::duration limit = kLongest) {
  for (const Clock::time_point end = Clock::now() + limit; Clock::now() < end; std::this_thread::sleep_for(20ms))
    if (done()) return true;
  return done();
}

bool is_alive(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(status, text);
  return !text.empty() && text.find(") Z ") == std::string::npos;
}

struct Ended {
  int status = -1;  ///< −signal when it was killed
  std::string output;
  std::string error;
  double seconds = 0.0;
};

/// `rank_program launch …` as a process of its own.
class Launched {
 public:
  explicit Launched(std::vector<std::string> arguments, const std::vector<std::pair<std::string, std::string>>& variables = {}) {
    const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "rank_program";
    arguments.insert(arguments.begin(), {program.string(), "launch"});
    std::vector<char*> values;
    for (std::string& argument : arguments) values.push_back(argument.data());
    values.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    const bool redirected =
        std::freopen((directory_ / "output").c_str(), "w", stdout) != nullptr && std::freopen((directory_ / "error").c_str(), "w", stderr) != nullptr;
    if (!redirected) ::_exit(126);
    ::execv(values[0], values.data());
    ::_exit(127);
  }
  ~Launched() {
    if (!ended_) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

  Ended wait() {
    Ended result;
    int status = 0;
    ended_ = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
    EXPECT_TRUE(ended_) << "the launcher hangs";
    result.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (ended_) result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    result.output = test::read_file(directory_ / "output");
    result.error = test::read_file(directory_ / "error");
    return result;
  }

 private:
  test::TemporaryDirectory directory_;
  Clock::time_point start_ = Clock::now();
  pid_t pid_ = -1;
  bool ended_ = false;
};

/// The processes that signed in, once all have: ranks first, then mpirun.
std::vector<pid_t> processes_in(const fs::path& directory, int num_ranks) {
  std::vector<pid_t> found;
  pid_t parent = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const fs::path file = directory / ("rank_" + std::to_string(rank));
    EXPECT_TRUE(eventually([&] { return fs::exists(file); })) << file;
    pid_t pid = 0;
    std::ifstream(file) >> pid >> parent;
    found.push_back(pid);
  }
  found.push_back(parent);
  return found;
}

void expect_all_gone(const std::vector<pid_t>& processes) {
  for (const pid_t pid : processes) EXPECT_TRUE(eventually([&] { return !is_alive(pid); }, 10s)) << pid << " lives on";
}

class Launcher : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("mpirun --version >/dev/null 2>&1 </dev/null") != 0) GTEST_SKIP() << "SKIPPED: no mpirun";
  }
  test::TemporaryDirectory directory_;
};

TEST_F(Launcher, OnlyRankZeroIsHeard) {
  const Ended ended = Launched({"3", "-", "say"}, {{"OMP_NUM_THREADS", "5"}}).wait();
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output, "answer of rank 0 of 3, 5 threads, yielding 1\n");
  EXPECT_EQ(ended.error, "note: a note of rank 0\n");
}

TEST_F(Launcher, CoresAreDivided) {
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_THAT(Launched({"1024", "-", "none"}, {{"PATH", "/nowhere"}}).wait().error, HasSubstr("apt-get install openmpi-bin"));
  EXPECT_THAT(Launched({"2", "-", "say"}).wait().output,
              HasSubstr("of 2, " + std::to_string(std::max(1U, std::thread::hardware_concurrency() / 2)) + " threads"));
}

constexpr const char* kQuoted = "  error: recipe.yaml:14: it went wrong\n    fix:  mend it\n";

TEST_F(Launcher, AnErrorEndsAllAndIsSaidOnce) {
  for (const auto& [rank, status] : {std::pair("2", 2), std::pair("0", 1)}) {
    const Ended ended = Launched({"3", "-", "fail", rank, std::to_string(status)}).wait();
    EXPECT_EQ(ended.status, status);
    EXPECT_LT(ended.seconds, 10.0);
    EXPECT_EQ(ended.error, std::string("error: rank ") + rank + " ended the run:\n" + kQuoted);
  }
}

/// MPI ends all ranks when one has ended, perhaps before the one that was the cause could say how it would.
TEST_F(Launcher, AnErrorSaysWithWhichStatusItsRankWouldHaveEnded) {
  const Ended ended = Launched({"3", "-", "fail", "1", "2", std::to_string(SIGKILL)}).wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.error, std::string("error: rank 1 ended the run:\n") + kQuoted);
}

TEST_F(Launcher, WhatAllRanksFindIsSaidOnce) {
  const Ended ended = Launched({"3", "-", "agree"}).wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.error, "error: recipe.yaml:14: it went wrong\n  fix:  mend it\n");
}

TEST_F(Launcher, WhatOthersRepeatIsSaidOnceAndWhoseItWas) {
  const Ended ended = Launched({"3", "-", "repeat"}).wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.error, std::string("error: rank 1 ended the run:\n") + kQuoted);
}

TEST_F(Launcher, OtherErrorsAreSaidBeforeTheFirst) {
  const Ended ended = Launched({"2", "-", "differ"}).wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.error, "[rank 1] error: mistake of rank 1\nerror: rank 0 ended the run:\n  error: mistake of rank 0\n");
}

TEST_F(Launcher, AKilledRankEndsAll) {
  const Ended ended = Launched({"3", "-", "kill", "1", "9"}).wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_LT(ended.seconds, 10.0);
  EXPECT_THAT(ended.error, EndsWith("error: rank 1 ended the run: it was killed by signal 9 (Killed), as by kill -9 or when memory runs out\n"));
}

TEST_F(Launcher, ACrashIsQuoted) {
  const Ended ended = Launched({"2", "-", "crash", "1"}).wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.error, EndsWith("error: rank 1 ended the run: it was killed by signal 6 (Aborted)\n"
                                    "  internal error: file.cpp:7: the last words (1 > 2)\n"));
}

TEST_F(Launcher, AnExitWithoutAWordIsADeath) {
  const Ended ended = Launched({"2", "-", "exit", "1", "0"}).wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.error, EndsWith("error: rank 1 ended the run: it died without a message\n"));
}

TEST_F(Launcher, LogsGoToOneFilePerRank) {
  const std::string logs = (directory_ / "logs/deep").string();
  const Ended ended = Launched({"2", logs, "say"}).wait();
  EXPECT_EQ(ended.error, "note: a note of rank 0\n");
  EXPECT_EQ(test::read_file(logs + "/rank_0.log"), "note: a note of rank 0\n");
  EXPECT_EQ(test::read_file(logs + "/rank_1.log"), "note: a note of rank 1\n");
}

TEST_F(Launcher, ErrorsAreInTheLogsToo) {
  const std::string logs = (directory_ / "logs").string();
  const Ended ended = Launched({"2", logs, "fail", "1", "1"}).wait();
  EXPECT_EQ(ended.error, std::string("error: rank 1 ended the run:\n") + kQuoted);
  EXPECT_THAT(test::read_file(logs + "/rank_1.log"), HasSubstr("error: recipe.yaml:14: it went wrong"));
}

TEST_F(Launcher, ACrashIsQuotedFromTheLog) {
  const Ended ended = Launched({"2", (directory_ / "logs").string(), "crash", "1"}).wait();
  EXPECT_THAT(ended.error, EndsWith("  internal error: file.cpp:7: the last words (1 > 2)\n"));
}

TEST_F(Launcher, SigtermReachesEveryRank) {
  Launched launched({"3", "-", "wait", directory_.path().string()});
  const std::vector<pid_t> processes = processes_in(directory_.path(), 3);
  ::kill(launched.pid(), SIGTERM);
  const Ended ended = launched.wait();
  EXPECT_EQ(ended.status, 0) << ended.error;
  for (const char* file : {"saved_0", "saved_1", "saved_2"}) EXPECT_EQ(test::read_file(directory_ / file), std::to_string(SIGTERM));
  expect_all_gone(processes);
}

/// `timeout` signals the launcher, and then its group: the ranks save all the same.
TEST_F(Launcher, ASecondSignalAtOnceIsTheSameRequest) {
  Launched launched({"3", "-", "wait", directory_.path().string()});
  processes_in(directory_.path(), 3);
  ::kill(launched.pid(), SIGTERM);
  std::this_thread::sleep_for(10ms);  // so that they are two; the ranks look every 100 ms
  ::kill(launched.pid(), SIGTERM);
  const Ended ended = launched.wait();
  EXPECT_EQ(ended.status, 0) << ended.error;
  for (const char* file : {"saved_0", "saved_1", "saved_2"}) EXPECT_TRUE(fs::exists(directory_ / file)) << file;
}

TEST_F(Launcher, SigintToo) {
  Launched launched({"2", "-", "wait", directory_.path().string()});
  processes_in(directory_.path(), 2);
  ::kill(launched.pid(), SIGINT);
  EXPECT_EQ(launched.wait().status, 0);
}

TEST_F(Launcher, RanksThatDoNotSaveAreEndedBySigterm) {
  Launched launched({"2", "-", "sleep", directory_.path().string()});
  const std::vector<pid_t> processes = processes_in(directory_.path(), 2);
  ::kill(launched.pid(), SIGTERM);
  const Ended ended = launched.wait();
  EXPECT_EQ(ended.status, 128 + SIGTERM);
  EXPECT_THAT(ended.error, EndsWith("error: stopped by SIGTERM before every rank could save\n"));
  expect_all_gone(processes);
}

TEST_F(Launcher, RanksDieWithTheLauncher) {
  Launched launched({"2", "-", "wait", directory_.path().string()});
  const std::vector<pid_t> processes = processes_in(directory_.path(), 2);
  ::kill(launched.pid(), SIGKILL);
  EXPECT_EQ(launched.wait().status, -SIGKILL);
  expect_all_gone(processes);
}

TEST_F(Launcher, RanksDieWithMpirun) {
  Launched launched({"2", "-", "wait", directory_.path().string()});
  const std::vector<pid_t> processes = processes_in(directory_.path(), 2);
  ::kill(processes.back(), SIGKILL);
  const Ended ended = launched.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_LT(ended.seconds, 10.0);
  expect_all_gone(processes);
}

}  // namespace
}  // namespace tessera::launch
