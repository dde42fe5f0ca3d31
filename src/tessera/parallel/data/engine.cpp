#include "tessera/parallel/data/engine.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "tessera/core/error.h"

namespace tessera::parallel {
namespace {

std::vector<std::vector<std::size_t>> buffers_by_unit(const model::ParameterStore& store) {
  std::vector<std::vector<std::size_t>> result(static_cast<std::size_t>(store.table().num_units));
  for (std::size_t number = 0; number < store.buffers().size(); ++number) {
    const std::int64_t unit = store.buffers()[number].unit;
    result[static_cast<std::size_t>(unit)].push_back(number);
    if (unit == 0 && store.table().tied_head) result.back().push_back(number);
  }
  return result;
}

std::vector<std::int64_t> sizes_of(const std::vector<model::Extent>& shards) {
  std::vector<std::int64_t> sizes;
  for (const model::Extent& shard : shards) sizes.push_back(shard.size());
  return sizes;
}

}  // namespace

ShardGroups shard_groups(const ShardAxes& axes, Communicators& communicators) {
  return {&communicators.get(axes.shards), &communicators.get(axes.replicas)};
}

DataParallelEngine::DataParallelEngine(model::ParameterStore& store, const DataParallelPolicy& policy, EngineGroups groups)
    : store_(store), policy_(policy), groups_(std::move(groups)), buffers_of_unit_(buffers_by_unit(store)) {
  for (const model::FlatBuffer& buffer : store.buffers()) {
    const model::Placement& place = store.placement(buffer);
    const auto& [shards, replicas] = this->groups(buffer);
    TESSERA_ASSERT(place.num_shards == shards->size() && place.shard == shards->rank(), "the shard group is the placement's");
    TESSERA_ASSERT(place.num_replicas == replicas->size() && place.replica == replicas->rank(), "the replica group is the placement's");
    states_.push_back({.counts = sizes_of(buffer.shards), .gather = {}, .gathered = {}});
  }
}

void DataParallelEngine::begin_step() {
  store_.start_gradients();
  for (State& state : states_) state.reduced = false;
  if (policy_.by_stage) return count_uses();
  // Travels while the step's labels are counted.
  if (policy_.forward_prefetch_depth > 0) start_gathers(0);
}

void DataParallelEngine::count_uses() {
  for (State& state : states_) state.recorded_uses = 0;
  for (const std::vector<std::size_t>& buffers : buffers_of_unit_)
    for (const std::size_t number : buffers) ++states_[number].recorded_uses;
}

void DataParallelEngine::gather(model::UnitRange units) {
  if (!keeps_stages()) return;
  for (std::int64_t unit = units.first; unit < units.end; ++unit) start_gathers(unit);
}

void DataParallelEngine::free(model::UnitRange units) {
  for (std::int64_t unit = units.first; unit < units.end; ++unit) release_weights(unit);
}

void DataParallelEngine::before_weight_gradients(model::UnitRange units) {
  for (std::int64_t unit = units.first; unit < units.end; ++unit) start_gathers(unit);
  for (std::int64_t unit = units.first; unit < units.end; ++unit) finish_gathers(unit);
}

void DataParallelEngine::after_weight_gradients(model::UnitRange units) {
  if (!keeps_stages()) free(units);
}

void DataParallelEngine::reduce(model::UnitRange units) {
  for (std::int64_t unit = units.end; unit-- > units.first;)
    for (const std::size_t number : buffers_of_unit_[static_cast<std::size_t>(unit)])
      if (--states_[number].recorded_uses == 0 && store_.buffers()[number].trainable) reduce(number);
}

void DataParallelEngine::begin_microbatch(bool last) { last_microbatch_ = last; }

void DataParallelEngine::end_step() {
  while (!reductions_.empty()) finish_oldest_reduction();
  for (const model::FlatBuffer& buffer : store_.buffers())
    if (buffer.trainable) sum_shares(buffer);
  for (const model::FlatBuffer& buffer : store_.buffers())
    if (buffer.trainable && buffer.on_two_stages) groups_.tied->all_reduce(buffer.gradient_shard).wait();
}

void DataParallelEngine::sum_shares(const model::FlatBuffer& buffer) {
  std::map<std::int64_t, std::vector<at::Tensor>> by_holders;
  for (const model::ReplicatedExtent& part : model::partial_extents(store_.table(), buffer.ranges, buffer.held))
    by_holders[part.num_holders].push_back(buffer.gradient_shard.narrow(0, part.extent.begin - buffer.held.begin, part.extent.size()));
  for (const auto& [num_holders, shares] : by_holders) {
    // One message for all of them.
    const at::Tensor joined = at::cat(shares);
    groups_.holders.at(num_holders)->all_reduce(joined).wait();
    std::int64_t begin = 0;
    for (const at::Tensor& share : shares) {
      share.copy_(joined.narrow(0, begin, share.numel()));
      begin += share.numel();
    }
  }
}

void DataParallelEngine::exchange_weights(bool frozen_too) {
  for (std::size_t number = 0; number < states_.size(); ++number) {
    const model::FlatBuffer& buffer = store_.buffers()[number];
    comm::Communicator& shards = *groups(buffer).shards;
    if (shards_weights(buffer) || shards.size() == 1 || (!buffer.trainable && !frozen_too)) continue;
    states_[number].gather = shards.all_gather(buffer.compute_shard, states_[number].counts, buffer.compute);
    if (policy_.forward_prefetch_depth == 0) states_[number].gather.wait();
  }
}

void DataParallelEngine::before_forward(std::int64_t unit, bool recorded) {
  start_gathers(unit);
  if (!keeps_stages())
    for (std::int64_t ahead = 1; ahead <= policy_.forward_prefetch_depth; ++ahead) start_gathers(unit + ahead);
  finish_gathers(unit);
  if (!recorded) return;
  if (!policy_.by_stage)
    for (const std::size_t number : buffers_of_unit_[static_cast<std::size_t>(unit)]) ++states_[number].recorded_uses;
  // The fused loss writes the head's gradient while the loss is computed.
  if (unit + 1 == store_.table().num_units) keep_gradients(unit);
}

void DataParallelEngine::after_forward(std::int64_t unit, bool recorded) {
  if (keeps_stages()) return;
  const bool last_unit = unit + 1 == store_.table().num_units;
  if (!recorded || (policy_.reshard_after_forward && !last_unit)) release_weights(unit);
}

void DataParallelEngine::before_backward(std::int64_t unit) {
  keep_gradients(unit);
  if (unit == 0) return;  // the embedding's backward reads no weights
  start_gathers(unit);
  if (!keeps_stages())
    for (std::int64_t ahead = 1; ahead <= policy_.backward_prefetch_depth && unit - ahead > 0; ++ahead) start_gathers(unit - ahead);
  finish_gathers(unit);
}

void DataParallelEngine::after_backward(std::int64_t unit) {
  if (keeps_stages()) return;
  release_weights(unit);
  if (policy_.by_stage) return;
  for (const std::size_t number : buffers_of_unit_[static_cast<std::size_t>(unit)])
    if (--states_[number].recorded_uses == 0 && store_.buffers()[number].trainable) reduce(number);
}

void DataParallelEngine::start_gather(std::size_t number) {
  const model::FlatBuffer& buffer = store_.buffers()[number];
  State& state = states_[number];
  if (buffer.compute.defined() || state.gathered.defined()) return;
  state.gathered = at::empty({buffer.num_elements()}, buffer.compute_shard.options());
  state.gather = groups(buffer).shards->all_gather(buffer.compute_shard, state.counts, state.gathered);
}

void DataParallelEngine::finish_gather(std::size_t number) {
  State& state = states_[number];
  state.gather.wait();
  if (state.gathered.defined()) store_.set_compute(store_.buffers()[number], std::exchange(state.gathered, at::Tensor()));
}

void DataParallelEngine::start_gathers(std::int64_t unit) {
  if (unit >= store_.table().num_units) return;
  for (const std::size_t number : buffers_of_unit_[static_cast<std::size_t>(unit)]) start_gather(number);
}

void DataParallelEngine::finish_gathers(std::int64_t unit) {
  for (const std::size_t number : buffers_of_unit_[static_cast<std::size_t>(unit)]) finish_gather(number);
}

void DataParallelEngine::release_weights(std::int64_t unit) {
  for (const std::size_t number : buffers_of_unit_[static_cast<std::size_t>(unit)])
    if (model::FlatBuffer& buffer = store_.buffers()[number]; shards_weights(buffer)) store_.release_compute(buffer);
}

void DataParallelEngine::keep_gradients(std::int64_t unit) {
  for (const std::size_t number : buffers_of_unit_[static_cast<std::size_t>(unit)]) {
    model::FlatBuffer& buffer = store_.buffers()[number];
    if (!buffer.trainable || buffer.gradient.defined()) continue;
    store_.set_gradient(buffer, at::empty({buffer.num_elements()}, buffer.master.options()));
  }
}

void DataParallelEngine::reduce(std::size_t number) {
  model::FlatBuffer& buffer = store_.buffers()[number];
  if (!policy_.reduce_every_microbatch && !last_microbatch_) return;
  store_.finish_gradients(buffer);
  if (groups(buffer).shards->size() > 1) {
    start_reduction(number);
  } else if (last_microbatch_) {
    start_replica_reduction(number);
  }
  const std::size_t most = policy_.overlap_reduce ? kReductionsUnderWay : 0;
  while (reductions_.size() > most) finish_oldest_reduction();
}

std::optional<at::ScalarType> DataParallelEngine::wire(const model::FlatBuffer& buffer) const { return buffer.exact ? std::nullopt : policy_.wire; }

void DataParallelEngine::start_reduction(std::size_t number) {
  model::FlatBuffer& buffer = store_.buffers()[number];
  State& state = states_[number];
  Reduction reduction{.buffer = number, .work = {}, .whole = buffer.gradient, .increment = {}, .last = last_microbatch_};
  if (state.reduced) reduction.increment = at::empty_like(buffer.gradient_shard);
  state.reduced = true;
  reduction.work = groups(buffer).shards->reduce_scatter(reduction.whole, state.counts,
                                                         reduction.increment.defined() ? reduction.increment : buffer.gradient_shard, wire(buffer));
  if (!store_.placement(buffer).whole_gradients) store_.release_gradient(buffer);
  reductions_.push_back(std::move(reduction));
}

void DataParallelEngine::start_replica_reduction(std::size_t number) {
  const model::FlatBuffer& buffer = store_.buffers()[number];
  comm::Communicator& replicas = *groups(buffer).replicas;
  if (replicas.size() == 1) return;
  const at::Tensor& gradient = buffer.gradient_shard;
  reductions_.push_back({.buffer = number,
                         .work = replicas.all_reduce(gradient, comm::ReduceOperation::Sum, wire(buffer)),
                         .whole = gradient,
                         .increment = {},
                         .last = false});
}

void DataParallelEngine::finish_oldest_reduction() {
  Reduction reduction = std::move(reductions_.front());
  reductions_.pop_front();
  reduction.work.wait();
  if (reduction.increment.defined()) store_.buffers()[reduction.buffer].gradient_shard.add_(reduction.increment);
  if (reduction.last) start_replica_reduction(reduction.buffer);
}

at::Tensor DataParallelEngine::whole(const model::FlatBuffer& buffer, const at::Tensor& part) {
  if (part.numel() == buffer.num_elements()) return part;
  at::Tensor result = at::empty({buffer.num_elements()}, part.options());
  groups(buffer).shards->all_gather(part.contiguous(), sizes_of(buffer.shards), result).wait();
  return result;
}

at::Tensor DataParallelEngine::whole_gradient(const model::FlatBuffer& buffer) { return whole(buffer, buffer.gradient_shard); }

at::Tensor DataParallelEngine::whole_master(const model::FlatBuffer& buffer) {
  return whole(buffer, buffer.master.defined() ? buffer.master : buffer.compute_shard);
}

}  // namespace tessera::parallel
