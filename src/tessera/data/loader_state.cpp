#include "tessera/data/loader_state.h"

#include <fmt/format.h>

#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/logging.h"

namespace tessera::data {
namespace {

/// What besides the dataset decides the order, by its name in a recipe and in a checkpoint.
struct OrderKey {
  const char* recipe;
  const char* state;
};
constexpr OrderKey kOrderKeys[] = {{"seed", "seed"},
                                   {"dataloader.shuffle", "shuffle"},
                                   {"dataloader.group_by_length", "group_by_length"},
                                   {"step_scheduler.global_batch_size", "global_batch_size"}};

Json order_of(const LoaderOptions& options) {
  Json order{{"seed", options.seed}, {"shuffle", options.shuffle}, {"group_by_length", options.group_by_length}};
  if (options.group_by_length) order["global_batch_size"] = options.global_batch_size;  // the size of a group
  return order;
}

std::int64_t count_at(const Json& state, const char* key, const std::string& where) {
  if (state.is_object() && state.contains(key) && state[key].is_number_integer() && state[key].get<std::int64_t>() >= 0)
    return state[key].get<std::int64_t>();
  throw UserError({where, fmt::format("the loader's state has no count '{}'", key), "it holds epoch, consumed and num_samples",
                   "name another checkpoint: `tessera checkpoint list` shows the complete ones"});
}

std::string described(const Json& state) {
  return state.contains("dataset") && state["dataset"].is_string() ? fmt::format(" ({})", state["dataset"].get<std::string>()) : "";
}

DataPosition position_of(const Json& state, const std::string& where) {
  return {count_at(state, "epoch", where), count_at(state, "consumed", where)};
}

/// How the order of samples has changed but for the dataset, one line each.
std::vector<std::string> changes(const LoaderOptions& options, const Json& state) {
  std::vector<std::string> all;
  const Json now = order_of(options);
  for (const OrderKey& key : kOrderKeys)
    if (state.contains(key.state) && now.contains(key.state) && state[key.state] != now[key.state])
      all.push_back(fmt::format("{}: {} in the checkpoint, {} in the recipe", key.recipe, state[key.state].dump(), now[key.state].dump()));
  return all;
}

/// How it has changed, the dataset too.
std::vector<std::string> changes(Loader& loader, const Json& state, const std::string& where) {
  std::vector<std::string> all = changes(loader.options(), state);
  const std::int64_t num_samples = count_at(state, "num_samples", where);
  const std::string descriptions = fmt::format("\n    checkpoint: {} samples{}\n    recipe:     {} samples ({})", num_samples, described(state),
                                               loader.dataset().size(), loader.description());
  if (num_samples != loader.dataset().size())
    all.push_back("dataset: another number of samples" + descriptions);
  else if (state.contains("labels") && state["labels"] != loader.label_hash())
    all.push_back("dataset: the same number of samples, but others" + descriptions);
  return all;
}

void refuse_in_mid_epoch(const std::vector<std::string>& changes, DataPosition position, const std::string& where) {
  ProblemList problems;
  for (const std::string& change : changes)
    problems.add({where, change, fmt::format("in the middle of an epoch, {} samples of which were trained on, their order stays", position.consumed),
                  "set it back, or begin a new run in another checkpoint_dir from the weights (restore_optimizer: false)"});
  problems.throw_if_any();
}

}  // namespace

Json loader_state(Loader& loader) {
  Json state = order_of(loader.options());
  state["epoch"] = loader.position().epoch;
  state["consumed"] = loader.position().consumed;
  state["num_samples"] = loader.dataset().size();
  state["dataset"] = loader.description();
  state["labels"] = loader.label_hash();
  return state;
}

void restore_loader(Loader& loader, const Json& state, const std::string& where) {
  const DataPosition position = position_of(state, where);
  const std::vector<std::string> changed = changes(loader, state, where);
  if (position.consumed > 0) refuse_in_mid_epoch(changed, position, where);
  for (const std::string& change : changed) log::note("from epoch {} on, the data come in another order: {}", position.epoch, change);
  loader.restore(position);
}

void refuse_changed_order(const LoaderOptions& options, const Json& state, const std::string& where) {
  const DataPosition position = position_of(state, where);
  if (position.consumed > 0) refuse_in_mid_epoch(changes(options, state), position, where);
}

}  // namespace tessera::data
