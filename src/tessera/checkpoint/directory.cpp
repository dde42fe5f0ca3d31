#include "tessera/checkpoint/directory.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <set>
#include <string_view>
#include <thread>
#include <tuple>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/logging.h"
#include "tessera/formats/huggingface.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

constexpr std::string_view kSaving = ".saving";
constexpr std::string_view kRemoving = ".removing";
constexpr const char* kLockName = ".lock";

struct Number {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
};

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_number(std::string_view& text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::optional<Number> parse_name(std::string_view name) {
  Number number;
  if (!take_prefix(name, "epoch_") || !take_number(name, number.epoch)) return std::nullopt;
  if (!take_prefix(name, "_step_") || !take_number(name, number.step) || !name.empty()) return std::nullopt;
  return number;
}

bool is_leftover(std::string_view name) {
  if (!take_prefix(name, ".")) return false;
  for (const std::string_view suffix : {kSaving, kRemoving})
    if (name.ends_with(suffix) && parse_name(name.substr(0, name.size() - suffix.size()))) return true;
  return false;
}

std::vector<fs::path> leftovers_in(const fs::path& directory) {
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    if (is_leftover(entry.path().filename().string())) leftovers.push_back(entry.path());
  return leftovers;
}

std::string existing_text(const fs::path& directory) {
  std::vector<std::string> names;
  for (const CheckpointEntry& entry : list_checkpoints(directory)) names.push_back(entry.path.filename().string());
  if (names.empty()) return fmt::format("leave restore_from out to begin from the start: {} holds no complete checkpoint", directory.string());
  return fmt::format("there is {}", fmt::join(names, ", "));
}

[[noreturn]] void not_a_checkpoint(const fs::path& path, bool weights_alone) {
  if (const fs::path whole = fs::canonical(path).parent_path(); is_checkpoint(whole)) {
    const fs::path consolidated = whole / "model" / "consolidated";
    const bool other = weights_alone && formats::has_weights(consolidated);
    throw UserError(Problem{path.string(), "this is a part of a checkpoint", "",
                            fmt::format("name the checkpoint itself, {}{}", whole.string(), other ? ", or " + consolidated.string() : "")});
  }
  if (fs::exists(path / "config.json") && weights_alone)
    throw UserError(Problem{path.string(), "this is a model directory without weights", "weights are model.safetensors or shards with their index",
                            "choose a checkpoint, or a model directory with its weights"});
  if (fs::exists(path / "config.json"))
    throw UserError(Problem{path.string(), "this is a model directory, not a checkpoint of a run: it has no optimizer state",
                            "restore_from continues a run", "set checkpoint.restore_optimizer: false to begin from its weights"});
  throw UserError(Problem{path.string(), "not a complete checkpoint: it has no manifest.json",
                          "the manifest is written last, so a save that was interrupted has none", "choose another checkpoint"});
}

std::set<fs::path> linked_checkpoints(const fs::path& directory) {
  std::set<fs::path> targets;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    std::error_code error;
    if (entry.is_symlink()) targets.insert(fs::canonical(entry.path(), error));
  }
  return targets;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string user_name() {
  const passwd* user = ::getpwuid(::geteuid());
  return user == nullptr ? std::to_string(::geteuid()) : user->pw_name;
}

std::string holder_text(const fs::path& lock) try {
  const Json holder = read_json_file(lock);
  return fmt::format("process {} of {} on host {}, since {}", holder.at("pid").get<std::int64_t>(), holder.at("user").get<std::string>(),
                     holder.at("host").get<std::string>(), holder.at("since").get<std::string>());
} catch (const std::exception&) {
  return "its process is unknown";  // it has only just begun
}

std::string text_of(const fs::path& lock) try { return read_text_file(lock); } catch (const UserError&) {
  return "";
}

std::string write_holder(int descriptor) {
  const Json holder = {{"pid", ::getpid()},
                       {"user", user_name()},
                       {"host", host_name()},
                       {"since", fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr)))}};
  const std::string text = holder.dump() + "\n";
  // A help for people, and for ranks to find out whether they share the directory: the lock itself is the kernel's. Network file systems show other
  // hosts what is synced.
  if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, text.data(), text.size(), 0) < 0 || ::fsync(descriptor) != 0)
    log::warning("cannot write the owner into the lock file");
  return text;
}

}  // namespace

bool is_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path / kManifestName, error).type();
  return type == fs::file_type::regular || type == fs::file_type::none;
}

std::string checkpoint_name(std::int64_t epoch, std::int64_t step) { return fmt::format("epoch_{}_step_{}", epoch, step); }

std::vector<CheckpointEntry> list_checkpoints(const fs::path& directory) {
  std::vector<CheckpointEntry> entries;
  if (!fs::is_directory(directory)) return entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::optional<Number> number = parse_name(entry.path().filename().string());
    if (number && !entry.is_symlink() && is_checkpoint(entry.path())) entries.push_back({entry.path(), number->epoch, number->step});
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return std::tie(a.step, a.epoch) < std::tie(b.step, b.epoch); });
  return entries;
}

std::optional<fs::path> link_target(const fs::path& directory, const std::string& link) {
  std::error_code error;
  fs::path target = fs::canonical(directory / link, error);
  if (error || !is_checkpoint(target)) return std::nullopt;
  return target;
}

std::optional<fs::path> latest_checkpoint(const fs::path& directory) {
  const std::vector<CheckpointEntry> entries = list_checkpoints(directory);
  std::optional<fs::path> target = link_target(directory, kLatest);
  const auto is_target = [&](const CheckpointEntry& entry) { return fs::canonical(entry.path) == target; };
  if (target && std::ranges::none_of(entries, is_target)) return target;  // someone's own choice
  if (entries.empty()) return std::nullopt;
  return fs::canonical(entries.back().path);
}

fs::path resolve_restore_from(const fs::path& directory, const std::string& restore_from, bool weights_alone) {
  if (restore_from == kLatest) {
    if (const auto latest = latest_checkpoint(directory)) return *latest;
    throw UserError(Problem{"checkpoint.restore_from", fmt::format("LATEST: {} holds no complete checkpoint", directory.string()), "",
                            "leave restore_from out to begin from the start"});
  }
  if (restore_from == kLowestValidation) {
    if (const auto target = link_target(directory, restore_from)) return *target;
    throw UserError(Problem{"checkpoint.restore_from", "there is no LOWEST_VAL in " + directory.string(),
                            "it is written when a save follows a validation", existing_text(directory)});
  }
  for (const fs::path& candidate : {directory / restore_from, fs::path(restore_from)}) {
    std::error_code error;
    if (!fs::is_directory(candidate, error)) continue;
    const bool model_directory = weights_alone && formats::has_weights(candidate);
    if (!is_checkpoint(candidate) && !model_directory) not_a_checkpoint(candidate, weights_alone);
    return fs::canonical(candidate);
  }
  throw UserError(Problem{"checkpoint.restore_from", fmt::format("\"{}\" is neither a checkpoint in {} nor a path", restore_from, directory.string()),
                          "", existing_text(directory)});
}

void refuse_later_checkpoints(const fs::path& directory, std::int64_t step) {
  if (const std::vector<CheckpointEntry> entries = list_checkpoints(directory); !entries.empty() && entries.back().step > step)
    throw UserError(Problem{directory.string(),
                            fmt::format("holds {}, later than step {} where this run begins", entries.back().path.filename().string(), step),
                            "a complete checkpoint is never overwritten",
                            "continue from it with checkpoint.restore_from: LATEST and restore_optimizer: true, or choose another checkpoint_dir"});
  if (!fs::is_directory(directory)) return;
  ProblemList problems;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::optional<Number> number = parse_name(entry.path().filename().string());
    if (!number || number->step <= step || (is_checkpoint(entry.path()) && !entry.is_symlink())) continue;
    problems.add({entry.path().string(),
                  fmt::format("{}, and has the name of one later than step {} where this run begins",
                              entry.is_symlink() ? "a link, not a checkpoint" : "not a complete checkpoint: it has no manifest.json", step),
                  "a run neither continues from it nor writes over it", "remove it, or choose another checkpoint.checkpoint_dir"});
  }
  problems.throw_if_any();
}

bool holds_checkpoints(const fs::path& directory) { return !list_checkpoints(directory).empty() || !leftovers_in(directory).empty(); }

void remove_leftovers(FileOperations& operations, const fs::path& directory) {
  for (const fs::path& leftover : leftovers_in(directory)) operations.remove_all(leftover);
}

void remove_checkpoint(FileOperations& operations, const fs::path& checkpoint) {
  const fs::path aside = checkpoint.parent_path() / fmt::format(".{}{}", checkpoint.filename().string(), kRemoving);
  operations.rename(checkpoint, aside);
  operations.sync_directory(checkpoint.parent_path());
  operations.remove_all(aside);
}

std::vector<fs::path> prune(FileOperations& operations, const fs::path& directory, std::int64_t keep) {
  const std::vector<CheckpointEntry> entries = list_checkpoints(directory);
  const std::set<fs::path> linked = linked_checkpoints(directory);
  std::vector<fs::path> removed;
  for (std::size_t i = 0; i + static_cast<std::size_t>(std::max<std::int64_t>(keep, 0)) < entries.size(); ++i) {
    if (linked.contains(fs::canonical(entries[i].path))) continue;
    remove_checkpoint(operations, entries[i].path);
    removed.push_back(entries[i].path);
  }
  return removed;
}

DirectoryLock::DirectoryLock(const fs::path& directory) {
  const fs::path path = directory / kLockName;
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    throw UserError(Problem{directory.string(), fmt::format("cannot write into the checkpoint directory: {}", std::strerror(errno)), "",
                            "choose another checkpoint.checkpoint_dir or fix its permissions"});
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    holder_ = write_holder(descriptor_);
    return;
  }
  const int reason = errno;
  if (reason != EWOULDBLOCK) {  // a file system without locks
    log::warning("{}: cannot lock the checkpoint directory ({}); see to it that no other run writes there", directory.string(),
                 std::strerror(reason));
    holder_ = write_holder(descriptor_);
    return;
  }
  ::close(descriptor_);
  throw UserError(Problem{directory.string(), "another run writes its checkpoints here: " + holder_text(path),
                          "one run at a time in a checkpoint directory", "wait for it, or choose another checkpoint.checkpoint_dir"});
}

DirectoryLock::~DirectoryLock() { ::close(descriptor_); }

void expect_lock_holder(const fs::path& directory, const std::string& holder, std::int64_t rank, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (text_of(directory / kLockName) != holder) {
    if (std::chrono::steady_clock::now() >= deadline)
      throw UserError(Problem{directory.string(), fmt::format("rank {} (on host {}) does not see what rank 0 writes here", rank, host_name()),
                              "every rank writes its part of a checkpoint into one directory",
                              "choose a checkpoint.checkpoint_dir on a file system that all hosts share"});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace tessera::checkpoint
