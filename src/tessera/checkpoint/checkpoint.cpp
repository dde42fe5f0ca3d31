#include "tessera/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "tessera/checkpoint/consolidate.h"
#include "tessera/checkpoint/files.h"
#include "tessera/checkpoint/links.h"
#include "tessera/checkpoint/recording_operations.h"
#include "tessera/checkpoint/shard.h"
#include "tessera/checkpoint/state.h"
#include "tessera/comm/values.h"
#include "tessera/core/error.h"
#include "tessera/core/logging.h"
#include "tessera/formats/huggingface.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

constexpr std::string_view kConsolidateScript =
    R"script(#!/bin/sh
# Writes consolidated/ beside this file: the checkpoint's weights as a Hugging Face directory.
# TESSERA names the program when it is not on the PATH; further arguments go to it.
set -eu
model=$(cd "$(dirname "$0")" && pwd)
exec "${TESSERA:-tessera}" checkpoint consolidate "$model/.." "$model/consolidated" "$@"
)script";

std::string json_text(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

void write_model_files(FileOperations& operations, const fs::path& model, const ModelFiles& files) {
  write_text(operations, model / "config.json", files.config_json);
  for (const auto& [name, content] : files.others) write_text(operations, model / name, content);
  write_script(operations, model / "consolidate.sh", kConsolidateScript);
}

void write_training_state(FileOperations& operations, const fs::path& checkpoint, const SaveRequest& request) {
  const TrainingState& state = request.state;
  for (const auto& [name, json] : {std::pair("loader.json", &state.loader), std::pair("scheduler.json", &state.scheduler),
                                   std::pair("rng.json", &state.rng), std::pair("losses.json", &state.losses)})
    if (!json->is_null()) write_text(operations, checkpoint / name, json_text(*json));
  write_text(operations, checkpoint / "config.yaml", request.config_yaml);
}

Manifest start_manifest(const SaveRequest& request, std::int64_t optimizer_steps) {
  Manifest manifest;
  manifest.epoch = request.state.epoch;
  manifest.step = request.state.step;
  manifest.signature = request.signature;
  manifest.optimizer_steps = optimizer_steps;
  manifest.validation_metric = request.state.validation_metric;
  manifest.best_validation = request.state.best_validation;
  manifest.layout = request.layout;
  manifest.versions = request.versions;
  return manifest;
}

// The folders, outermost first, that are to be made so that `path` exists.
std::vector<fs::path> missing_directories(const fs::path& path) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (fs::path folder = fs::absolute(path).lexically_normal(); !fs::exists(folder, ignored); folder = folder.parent_path())
    if (folder.has_filename()) missing.insert(missing.begin(), folder);
  return missing;
}

// A folder lasts when the one that it lies in is synced.
void create_writable_directory(FileOperations& operations, const fs::path& path) {
  const std::vector<fs::path> missing = missing_directories(path);
  std::error_code error;
  fs::create_directories(path, error);
  const auto refuse = [&](const std::string& why, const char* fix) {
    throw UserError(Problem{path.string(), "cannot create the checkpoint directory: " + why, "", fix});
  };
  if (error && fs::is_symlink(fs::symlink_status(path)))
    refuse("it is a link to " + fs::read_symlink(path).string() + ", which does not exist", "make what it leads to, or remove the link");
  if (error || !fs::is_directory(path))
    refuse(error ? error.message() : "it is a file", "choose another checkpoint.checkpoint_dir or fix its permissions");
  for (const fs::path& folder : missing) operations.sync_directory(folder.parent_path());
}

/// Runs `work`, which writes aside, and says of its failure that nothing else was lost.
auto while_saving(const auto& work) {
  try {
    return work();
  } catch (const Failure& failure) {
    Problem problem = failure.problem();
    problem.rule = "a checkpoint is saved wholly or not at all; earlier ones are untouched";
    throw Failure(problem);
  }
}

}  // namespace

ModelFiles model_files(const fs::path& model_directory, DType dtype) {
  ModelFiles files;
  const fs::path config = model_directory / "config.json";
  files.config_json = config_with_dtype(read_text_file(config), dtype, config.string());
  std::vector<fs::path> others = formats::find_tokenizer_files(model_directory).existing();
  if (const fs::path generation = model_directory / "generation_config.json"; fs::exists(generation)) others.push_back(generation);
  files.others = read_files(others);
  return files;
}

std::map<std::string, std::string> read_files(const std::vector<fs::path>& files) {
  std::map<std::string, std::string> contents;
  for (const fs::path& file : files) contents[file.filename().string()] = read_text_file(file);
  return contents;
}

CheckpointDirectory::CheckpointDirectory(FileOperations& operations, fs::path path, DirectoryOptions options, comm::Communicator& group)
    : operations_(operations), path_(std::move(path)), options_(options), group_(group) {
  at_keeper([&] {
    create_writable_directory(operations_, path_);
    lock_ = std::make_unique<DirectoryLock>(path_);
    refuse_blocked_links(path_);
    remove_leftovers(operations_, path_);
    repair_links(operations_, path_);
  });
  const std::string holder = comm::gather(group_, lock_ ? lock_->holder() : "").front();
  comm::together(group_, [&] {
    const std::int64_t rank = group_.members()[static_cast<std::size_t>(group_.rank())];
    if (!keeps_directory()) expect_lock_holder(path_, holder, rank, options_.visible_within);
  });
}

void CheckpointDirectory::refuse_later_checkpoints(std::int64_t step) const {
  at_keeper([&] { checkpoint::refuse_later_checkpoints(path_, step); });
}

void CheckpointDirectory::at_keeper(const std::function<void()>& work) const {
  comm::together(group_, [&] {
    if (keeps_directory()) work();
  });
}

CheckpointDirectory::OwnState CheckpointDirectory::own_state(const SaveRequest& request) {
  const Pieces owned = request.store->owned_pieces();
  return {(request.saves_masters ? master_boxes : compute_boxes)(*request.store, owned), optimizer_boxes(*request.store, *request.optimizer, owned)};
}

fs::path CheckpointDirectory::save(const SaveRequest& request) {
  finish_save();
  return write(request, own_state(request), request.optimizer->num_steps());
}

void CheckpointDirectory::begin_save(const SaveRequest& request) {
  finish_save();
  OwnState own = own_state(request);
  std::vector<TensorBox*> boxes;
  for (std::vector<TensorBox>* part : {&own.model, &own.optim})
    for (TensorBox& box : *part) boxes.push_back(&box);
  staging_.copy(boxes);
  in_flight_ = std::async(std::launch::async,
                          [this, request, own = std::move(own), steps = request.optimizer->num_steps()] { return write(request, own, steps); });
}

bool CheckpointDirectory::save_has_ended() const {
  return in_flight_.valid() && in_flight_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::optional<fs::path> CheckpointDirectory::finish_save() {
  if (!in_flight_.valid()) return std::nullopt;
  return in_flight_.get();
}

fs::path CheckpointDirectory::write(const SaveRequest& request, const OwnState& own, std::int64_t optimizer_steps) {
  const std::string name = checkpoint_name(request.state.epoch, request.state.step);
  const fs::path checkpoint = path_ / name;
  const fs::path aside = path_ / ("." + name + ".saving");
  std::optional<RemoveUnlessKept> half_written;
  at_keeper([&] {
    if (fs::exists(checkpoint))
      throw UserError(
          Problem{checkpoint.string(), "exists already", "a checkpoint is never overwritten", "move it away or choose another directory"});
    remove_leftovers(operations_, path_);
    half_written.emplace(operations_, aside);
    while_saving([&] {
      for (const fs::path& directory : {aside, aside / "model", aside / "optim"}) operations_.create_directory(directory);
    });
  });
  RankRecords records;
  comm::together(group_, [&] { records = while_saving([&] { return write_own(aside, own); }); });
  Manifest manifest = start_manifest(request, optimizer_steps);
  for (const std::string& of_rank : comm::gather(group_, to_text(records))) merge(manifest, rank_records_from_text(of_rank));
  const std::optional<double> metric = comparable_metric(manifest);
  if (request.consolidate) while_saving([&] { consolidate(aside, manifest); });
  at_keeper([&] {
    while_saving([&] { complete(aside, request, std::move(manifest)); });
    operations_.rename(aside, checkpoint);
    half_written->keep();
    operations_.sync_directory(path_);
    switch_links(operations_, path_, checkpoint, metric);
    if (options_.max_recent_checkpoints) remove_old();
  });
  return checkpoint;
}

RankRecords CheckpointDirectory::write_own(const fs::path& aside, const OwnState& own) {
  RecordingFileOperations recorder(operations_, aside);
  const ShardOwner owner{group_.rank(), group_.size()};
  RankRecords records;
  records.model = write_shard_files(recorder, aside, plan_shard_files("model", owner, own.model));
  records.optim = write_shard_files(recorder, aside, plan_shard_files("optim", owner, own.optim));
  records.files = recorder.files();
  return records;
}

void CheckpointDirectory::consolidate(const fs::path& aside, Manifest& manifest) {
  const fs::path output = aside / "model" / "consolidated";
  at_keeper([&] { operations_.create_directory(output); });
  for (auto& [name, record] : write_consolidated(operations_, {aside, &manifest.model, {}}, output, {options_.max_shard_size}, group_))
    manifest.files["model/consolidated/" + name] = record;
}

void CheckpointDirectory::complete(const fs::path& aside, const SaveRequest& request, Manifest manifest) {
  RecordingFileOperations recorder(operations_, aside);
  write_model_files(recorder, aside / "model", *request.model_files);
  write_training_state(recorder, aside, request);
  if (request.consolidate) {
    const fs::path output = aside / "model" / "consolidated";
    write_consolidated_model_files(recorder, {aside, &manifest.model, aside / "model"}, output, {options_.max_shard_size});
    operations_.sync_directory(output);
  }
  operations_.sync_directory(aside / "model");
  operations_.sync_directory(aside / "optim");
  manifest.files.insert(recorder.files().begin(), recorder.files().end());
  write_text(operations_, aside / kManifestName, checked_text(manifest));
  operations_.sync_directory(aside);
}

void CheckpointDirectory::remove_old() {
  try {
    prune(operations_, path_, *options_.max_recent_checkpoints);
  } catch (const Failure& failure) {
    log::warning("an old checkpoint could not be removed: {}", failure.what());  // the new one is safe, training can go on
  }
}

}  // namespace tessera::checkpoint
