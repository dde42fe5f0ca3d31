#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/hash.h"
#include "tessera/checkpoint/shard.h"
#include "tessera/checkpoint/state.h"
#include "tessera/checkpoint/verify.h"
#include "tessera/core/error.h"
#include "tessera/core/logging.h"
#include "tessera/formats/convert.h"
#include "tessera/formats/tensor_source.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

constexpr const char* kWeightsOnly =
    "begin a new run with the weights alone: another checkpoint.checkpoint_dir, restore_from: this checkpoint, restore_optimizer: false";

// Whether the saved tensor can fill the target; adds what is wrong.
void check_tensor(const TensorRecords& records, const std::string& name, const TensorBox& target, const char* fix, const std::string& where,
                  ProblemList& problems) {
  const auto found = records.find(name);
  if (found == records.end()) return problems.add({where, fmt::format("{} is missing in the checkpoint", name), "", fix});
  if (found->second.shape != target.tensor.shape)
    problems.add({where, fmt::format("{} has shape {} in the checkpoint, {} in the model", name, found->second.shape, target.tensor.shape), "", fix});
  else if (!formats::is_convertible(found->second.dtype, target.tensor.dtype))
    problems.add(
        {where, fmt::format("{}: {} does not convert to {}", name, to_string(found->second.dtype), to_string(target.tensor.dtype)), "", fix});
}

void check_surplus(const TensorRecords& records, const std::set<std::string>& known, const char* fix, const std::string& where,
                   ProblemList& problems) {
  for (const auto& [name, record] : records)
    if (!known.contains(name)) problems.add({where, fmt::format("{} is in the checkpoint and not in the model", name), "", fix});
}

// Whether a tensor was trained with a master beside its weight, which only rounded weights have: were it lost, the rounded weight must not pass for
// it.
bool has_master(const Manifest& manifest, const std::string& name) {
  if (manifest.optim.contains(kMaster + name)) return true;
  const auto weight = manifest.model.find(name);
  const bool rounded = weight != manifest.model.end() && weight->second.dtype != DType::F32 && weight->second.dtype != DType::F64;
  return rounded && manifest.optim.contains(kFirstMoment + name);
}

// Where each part of the state is read from.
struct Sources {
  std::vector<TensorBox> from_model;
  std::vector<TensorBox> from_optim;
};

Sources sources_of(const Manifest& manifest, const model::ParameterStore& store, const optim::Optimizer* optimizer, bool restore_optimizer) {
  Sources sources;
  for (TensorBox& box : master_boxes(store, store.held_pieces())) {
    if (!restore_optimizer || !has_master(manifest, box.tensor.name)) {
      sources.from_model.push_back(std::move(box));
      continue;
    }
    box.tensor.name = kMaster + box.tensor.name;
    sources.from_optim.push_back(std::move(box));
  }
  if (restore_optimizer)
    for (TensorBox& box : moment_boxes(store, *optimizer, store.held_pieces())) sources.from_optim.push_back(std::move(box));
  return sources;
}

// Every tensor of the model and of its optimizer, whatever rank holds it.
struct KnownNames {
  std::set<std::string> model, optim;
  std::set<std::string> frozen;  ///< moments that parameters would have, were they trained
};

KnownNames known_names(const model::ParameterStore& store) {
  KnownNames names;
  for (const std::string& tensor : store.table().elsewhere) {
    names.model.insert(tensor);
    for (const char* const kind : {kMaster, kFirstMoment, kSecondMoment}) names.optim.insert(kind + tensor);
  }
  for (std::size_t index = 0; index < store.table().parameters.size(); ++index) {
    for (const model::Piece& piece : store.table().parameters[index].pieces) {
      names.model.insert(piece.tensor);
      names.optim.insert(kMaster + piece.tensor);
      auto& moments = store.parameter(index).trainable ? names.optim : names.frozen;
      for (const char* const kind : {kFirstMoment, kSecondMoment}) moments.insert(kind + piece.tensor);
    }
  }
  return names;
}

// Moments of parameters that are not trained any more. Takes them out of the surplus.
void check_frozen(const TensorRecords& records, KnownNames& names, const std::string& where, ProblemList& problems) {
  std::vector<std::string> found;
  std::ranges::copy_if(names.frozen, std::back_inserter(found), [&](const std::string& name) { return records.contains(name); });
  if (found.empty()) return;
  problems.add({where, fmt::format("{} is of a parameter that is frozen now (and {} more tensors of the optimizer)", found.front(), found.size() - 1),
                "a run trains the same parameters to its end", std::string("freeze what was frozen before, or ") + kWeightsOnly});
  names.optim.merge(names.frozen);
}

void check_tensors(const Manifest& manifest, const model::ParameterStore& store, const Sources& sources, bool restore_optimizer,
                   const std::string& where) {
  ProblemList problems;
  KnownNames names = known_names(store);
  for (const TensorBox& box : master_boxes(store, store.held_pieces())) check_tensor(manifest.model, box.tensor.name, box, "", where, problems);
  check_surplus(manifest.model, names.model, "", where, problems);
  for (const TensorBox& box : sources.from_optim) check_tensor(manifest.optim, box.tensor.name, box, kWeightsOnly, where, problems);
  if (restore_optimizer) check_frozen(manifest.optim, names, where, problems);
  if (restore_optimizer) check_surplus(manifest.optim, names.optim, kWeightsOnly, where, problems);
  problems.throw_if_any();
}

void check_files(const fs::path& checkpoint, const Manifest& manifest, const RestoreOptions& options) {
  const auto read = [&](const std::string& file) { return !is_consolidated(file) && (options.restore_optimizer || !file.starts_with("optim/")); };
  ProblemList problems;
  for (Problem& problem : verify_files(checkpoint, manifest, options.verify, share_of_rank(manifest, read, options.rank, options.num_ranks))) {
    if (fs::path(problem.where).parent_path().filename() == "optim") problem.fix += std::string(", or ") + kWeightsOnly;
    problems.add(std::move(problem));
  }
  problems.throw_if_any();
}

// Small enough to be checked whatever `verify` says.
Json read_state(const fs::path& checkpoint, const Manifest& manifest, const char* name) {
  const auto found = manifest.files.find(name);
  if (found == manifest.files.end()) return {};
  const fs::path path = checkpoint / name;
  if (hash_of_file(path) != found->second.xxh3)
    throw UserError(Problem{path.string(), "the content is not what was saved", "", "choose another checkpoint: this one is damaged"});
  return read_json_file(path);
}

void read_all(const fs::path& checkpoint, const TensorRecords& records, const std::vector<TensorBox>& targets) {
  ShardReader reader(checkpoint, records);
  for (const TensorBox& target : targets) reader.read(target);
}

}  // namespace

TrainingState read_training_state(const fs::path& checkpoint, const Manifest& manifest) {
  TrainingState state{.epoch = manifest.epoch,
                      .step = manifest.step,
                      .loader = read_state(checkpoint, manifest, "loader.json"),
                      .scheduler = read_state(checkpoint, manifest, "scheduler.json"),
                      .rng = read_state(checkpoint, manifest, "rng.json"),
                      .losses = read_state(checkpoint, manifest, "losses.json"),
                      .validation_metric = manifest.validation_metric,
                      .best_validation = manifest.best_validation};
  // Where an earlier version has it.
  if (!state.loader.contains("seed") && state.rng.contains("seed")) state.loader["seed"] = state.rng["seed"];
  return state;
}

TrainingState restore(const fs::path& checkpoint, const ModelSignature& signature, model::ParameterStore& store, optim::Optimizer* optimizer,
                      const RestoreOptions& options) {
  TESSERA_ASSERT(optimizer != nullptr || !options.restore_optimizer, "an optimizer to restore");
  const Manifest manifest = read_manifest(checkpoint);
  refuse_other_model(checkpoint, manifest.signature, signature, !options.restore_optimizer);
  for (const std::string& difference : numeric_differences(manifest.signature, signature))
    log::note("{}: the model now computes otherwise: {}", checkpoint.string(), difference);
  const Sources sources = sources_of(manifest, store, optimizer, options.restore_optimizer);
  check_tensors(manifest, store, sources, options.restore_optimizer, checkpoint.string());
  check_files(checkpoint, manifest, options);
  TrainingState state = read_training_state(checkpoint, manifest);
  read_all(checkpoint, manifest.model, sources.from_model);
  read_all(checkpoint, manifest.optim, sources.from_optim);
  store.refresh_compute();
  if (options.restore_optimizer) optimizer->set_num_steps(manifest.optimizer_steps);
  return state;
}

}  // namespace tessera::checkpoint
