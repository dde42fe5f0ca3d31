#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/file.h"

/// A checkpoint directory holds complete checkpoints epoch_E_step_S/ and the links LATEST and LOWEST_VAL. What is being written or removed has a name
/// that starts with a dot, so a directory without it is complete or not ours.
namespace tessera::checkpoint {

inline constexpr const char* kLatest = "LATEST";
inline constexpr const char* kLowestValidation = "LOWEST_VAL";
inline constexpr const char* kManifestName = "manifest.json";

/// epoch_E_step_S
std::string checkpoint_name(std::int64_t epoch, std::int64_t step);

struct CheckpointEntry {
  std::filesystem::path path;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
};
/// The complete checkpoints (those with a manifest) by step, then epoch. Empty when the directory does not exist.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& directory);
/// What a link points at, when that is a complete checkpoint.
std::optional<std::filesystem::path> link_target(const std::filesystem::path& directory, const std::string& link);

/// What LATEST means: the newest checkpoint, wherever the link leads (a run that ends between a save's last two steps leaves it behind, and going
/// back would meet that checkpoint at the next save); unless someone has led it to a checkpoint that is not one of the directory's.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory);

/// checkpoint.restore_from: LATEST (latest_checkpoint), LOWEST_VAL, a name in `directory`, or a path. The complete checkpoint it means; UserError
/// that lists what there is, or says that the path is an incomplete checkpoint. A plain Hugging Face directory is accepted where the weights alone
/// are wanted.
std::filesystem::path resolve_restore_from(const std::filesystem::path& directory, const std::string& restore_from, bool weights_alone = false);
/// Whether this is a checkpoint of a run, and a complete one. One that may not be looked into counts: reading it says why, and passing it over would
/// take an older one for the newest.
bool is_checkpoint(const std::filesystem::path& path);

/// UserError when saves of a run that begins at `step` would meet something: a later checkpoint, or a later one that is not complete. Ask before
/// training.
void refuse_later_checkpoints(const std::filesystem::path& directory, std::int64_t step);

/// Whether prune and remove_leftovers could find anything.
bool holds_checkpoints(const std::filesystem::path& directory);
/// Removes what an interrupted save or removal left behind. Only names with this program's own prefix and suffix are touched.
void remove_leftovers(FileOperations& operations, const std::filesystem::path& directory);
/// Removes a checkpoint so that no instant shows half of one.
void remove_checkpoint(FileOperations& operations, const std::filesystem::path& checkpoint);
/// Keeps the newest `keep` checkpoints and every one that a link in the directory points at; returns what was removed.
std::vector<std::filesystem::path> prune(FileOperations& operations, const std::filesystem::path& directory, std::int64_t keep);

/// Held by the run that writes into a directory. The kernel lets go of it when the process ends, however it ends.
class DirectoryLock {
 public:
  /// UserError naming the holder's process, user and host when another run holds it; the directory must exist.
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  /// What is now in the lock's file: process, user, host and time.
  const std::string& holder() const { return holder_; }

 private:
  int descriptor_ = -1;
  std::string holder_;
};

/// UserError naming `rank` and this host unless the lock's file comes to say `holder` in time: else this is another directory than the holder's.
void expect_lock_holder(const std::filesystem::path& directory, const std::string& holder, std::int64_t rank, std::chrono::milliseconds patience);

}  // namespace tessera::checkpoint
