#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "tessera/comm/communicator.h"
#include "tessera/model/parameter_store.h"
#include "tessera/model/seams.h"
#include "tessera/parallel/communicators.h"
#include "tessera/parallel/data/policy.h"

namespace tessera::parallel {

/// Ranks that hold the same rows and each have a share of their gradients (model::ReplicatedRows), by the number of holders.
using HolderGroups = std::map<std::int64_t, comm::Communicator*>;

/// Ranks that have parts of one thing: those with other shards of it, and those with the same.
struct ShardGroups {
  comm::Communicator* shards = nullptr;
  comm::Communicator* replicas = nullptr;
};
/// Collective over the ranks of both.
ShardGroups shard_groups(const ShardAxes& axes, Communicators& communicators);

/// Everyone an engine talks to.
struct EngineGroups {
  ShardGroups shared;        ///< of all buffers but those of stacked experts that lie over other ranks
  ShardGroups experts = {};  ///< of those
  HolderGroups holders = {};
  comm::Communicator* tied = nullptr;  ///< the two that hold a tied embedding on two stages; null where there is none
};

/// The one data-parallel engine. It stands behind a decoder's unit hooks: gathers a unit's weights before they are used and frees them after, and
/// reduces a unit's gradients as soon as they are complete, during the backward pass of the units before it. What is sharded, gathered and reduced
/// when is the policy's choice and nothing else's.
///
/// Every rank of its groups must make the same calls in the same order, with the same number of microbatches.
///
/// A pipeline leaves out begin_microbatch and announces its stages instead (DataParallelPolicy::by_stage); the hooks then only see to it that what a
/// pass needs is there.
///
///   engine.begin_step();
///   for each microbatch: engine.begin_microbatch(is_last); forward; backward;
///   engine.end_step();                   gradient_shard of every buffer now is the sum over all ranks and microbatches
///   optimizer.step(…); engine.weights_changed();
class DataParallelEngine final : public model::UnitHooks {
 public:
  /// The store's placements must be the policy's, and the groups those of the placements. All of them must outlive the engine.
  DataParallelEngine(model::ParameterStore& store, const DataParallelPolicy& policy, EngineGroups groups);

  void begin_step();
  void begin_microbatch(bool last);
  /// Waits for every reduction, then adds up what holders of the same rows, and of a tied embedding, have shares of.
  void end_step();
  /// Of the units of one stage: begins to gather their weights, drops them, begins to reduce their gradients after the last microbatch.
  void gather(model::UnitRange units);
  void free(model::UnitRange units);
  /// Around weight gradients that were postponed: a product's input may be a norm's output, which is computed again and reads the norm's weight.
  void before_weight_gradients(model::UnitRange units);
  void after_weight_gradients(model::UnitRange units);
  void reduce(model::UnitRange units);
  /// The compute shards hold new weights (after an optimizer step): ranks that keep whole weights exchange them, each unit being waited for at its
  /// next use.
  void weights_changed() { exchange_weights(false); }
  /// The same after loading or initialisation, which change frozen weights too.
  void weights_loaded() { exchange_weights(true); }

  void before_forward(std::int64_t unit, bool recorded) override;
  void after_forward(std::int64_t unit, bool recorded) override;
  void before_backward(std::int64_t unit) override;
  void after_backward(std::int64_t unit) override;

  /// The whole gradient of a buffer, from all shards, after end_step. For verification: every rank of its shard group calls it.
  at::Tensor whole_gradient(const model::FlatBuffer& buffer);
  /// The whole master weights of a buffer; likewise.
  at::Tensor whole_master(const model::FlatBuffer& buffer);

 private:
  /// Of one buffer of the store.
  struct State {
    std::vector<std::int64_t> counts;  ///< elements of each shard
    comm::Work gather;                 ///< of `gathered`
    at::Tensor gathered;               ///< weights on their way; undefined when there are none
    std::int64_t recorded_uses = 0;    ///< forward passes whose backward is still to come; in a pipeline: units still to be reduced
    bool reduced = false;              ///< gradient_shard already holds a microbatch of this step
  };
  struct Reduction {
    std::size_t buffer;
    comm::Work work;
    at::Tensor whole;      ///< keeps the operands alive
    at::Tensor increment;  ///< undefined: the result lies in gradient_shard
    bool last;             ///< of this step
  };

  void exchange_weights(bool frozen_too);
  bool shards_weights(const model::FlatBuffer& buffer) const { return !store_.placement(buffer).whole_weights; }
  const ShardGroups& groups(const model::FlatBuffer& buffer) const { return buffer.experts ? groups_.experts : groups_.shared; }
  bool keeps_stages() const { return policy_.by_stage && !policy_.reshard_after_forward; }
  void start_gather(std::size_t number);
  void finish_gather(std::size_t number);
  void start_gathers(std::int64_t unit);
  void finish_gathers(std::int64_t unit);
  void release_weights(std::int64_t unit);
  void keep_gradients(std::int64_t unit);
  void reduce(std::size_t number);
  std::optional<at::ScalarType> wire(const model::FlatBuffer& buffer) const;
  void start_reduction(std::size_t number);
  void start_replica_reduction(std::size_t number);
  void finish_oldest_reduction();
  void count_uses();
  void sum_shares(const model::FlatBuffer& buffer);
  at::Tensor whole(const model::FlatBuffer& buffer, const at::Tensor& part);

  model::ParameterStore& store_;
  DataParallelPolicy policy_;
  EngineGroups groups_;
  std::vector<std::vector<std::size_t>> buffers_of_unit_;  ///< those a unit's operators read; the embedding's also belong to a tied head's unit
  std::vector<State> states_;                              ///< one per buffer
  std::deque<Reduction> reductions_;                       ///< under way, oldest first
  bool last_microbatch_ = true;
};

}  // namespace tessera::parallel
