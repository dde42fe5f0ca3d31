// Transfers run beside computation: of what a slow network would add to a step, little is left.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "distributed/delaying_communicator.h"
#include "distributed/ranks.h"
#include "tessera/comm/forwarding_communicator.h"
#include "tessera/comm/values.h"
#include "tessera/core/json.h"
#include "tessera/model/config.h"
#include "tessera/train/step.h"

namespace tessera::train {
namespace {

using Clock = std::chrono::steady_clock;

/// A pass of one unit and a transfer take the same time: the longest that a transfer may take to be hidden.
constexpr std::chrono::milliseconds kUnitTime{10}, kDelay{10};
constexpr std::int64_t kLayers = 24;
constexpr int kSteps = 3;

/// Makes each unit's pass take its time by sleeping, which a busy machine disturbs less than computing.
class SlowUnits final : public model::UnitHooks {
 public:
  explicit SlowUnits(model::UnitHooks& inner) : inner_(inner) {}
  void before_forward(std::int64_t unit, bool recorded) override {
    inner_.before_forward(unit, recorded);
    std::this_thread::sleep_for(kUnitTime);
  }
  void after_forward(std::int64_t unit, bool recorded) override { inner_.after_forward(unit, recorded); }
  void before_backward(std::int64_t unit) override {
    inner_.before_backward(unit);
    std::this_thread::sleep_for(kUnitTime);
  }
  void after_backward(std::int64_t unit) override { inner_.after_backward(unit); }

 private:
  model::UnitHooks& inner_;
};

model::ModelSpec many_small_layers() {
  const Json config{{"model_type", "llama"},
                    {"vocab_size", 64},
                    {"hidden_size", 32},
                    {"intermediate_size", 64},
                    {"num_hidden_layers", kLayers},
                    {"num_attention_heads", 2},
                    {"max_position_embeddings", 16}};
  return model::model_spec_from_json(config, "the test's model");
}

data::Batch one_row() {
  data::Batch batch{.rows = 1, .length = 8};
  for (std::int64_t position = 0; position < batch.length; ++position) {
    batch.input_ids.push_back(position);
    batch.labels.push_back(position + 1);
    batch.position_ids.push_back(position);
  }
  batch.lengths = {batch.length};
  batch.numbers = {0};
  return batch;
}

/// The engine again, with everything waited for as soon as it is issued.
void wait_for_everything(parallel::CausalLM& model, const parallel::DistributedSetup& setup) {
  model.policy.forward_prefetch_depth = model.policy.backward_prefetch_depth = 0;
  model.policy.overlap_reduce = false;
  model.engine = std::make_unique<parallel::DataParallelEngine>(
      *model.model.store, model.policy,
      parallel::EngineGroups{.shared = parallel::shard_groups(parallel::shard_axes(model.policy), *setup.communicators)});
}

/// The shortest of a few steps.
double step_seconds(config::Strategy strategy, std::chrono::milliseconds delay, bool overlapped) {
  const auto slow = comm::decorated_backend(test::backend(), [&](auto inner) { return comm::delaying_communicator(std::move(inner), delay); });
  const auto setup = parallel::DistributedSetup::build(*slow, {.strategy = strategy});
  auto model = parallel::CausalLM::from_config(many_small_layers(), 1, setup, {.dtype = DType::F32, .trainable = true});
  if (!overlapped) wait_for_everything(model, setup);
  SlowUnits hooks(*model.engine);
  model.model.decoder->set_unit_hooks(&hooks);
  optim::Optimizer optimizer(*model.model.store, {});
  const std::vector batches{one_row()};
  double shortest = 1e9;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const Clock::time_point begin = Clock::now();
    training_step(model, optimizer, batches, step, {.learning_rate = 1e-3}, 1.0);
    shortest = std::min(shortest, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return shortest;
}

/// Of the time that delays add to a step in which each is waited for, the share that the engine hides. None when that time is too short for so many
/// transfers.
double hidden_share(const std::string& name, config::Strategy strategy, std::int64_t least_transfers) {
  const double without = step_seconds(strategy, {}, true);
  const double hidden = step_seconds(strategy, kDelay, true);
  const double waited_for = step_seconds(strategy, kDelay, false);
  const double share = 1.0 - (hidden - without) / (waited_for - without);
  if (test::backend().rank() == 0)
    fmt::print("{}: a step takes {:.0f} ms without delays, {:.0f} ms with, {:.0f} ms if each is waited for: {:.0f} % hidden\n", name, without * 1e3,
               hidden * 1e3, waited_for * 1e3, share * 100);
  const double least_delay = 0.9 * static_cast<double>(least_transfers) * std::chrono::duration<double>(kDelay).count();
  return waited_for - without < least_delay ? 0.0 : share;
}

/// A machine that does other things may spoil an attempt; an engine that hides nothing comes near none.
void expect_mostly_hidden(const std::string& name, config::Strategy strategy, std::int64_t least_transfers) {
  double share = 0.0;
  for (int attempt = 0; attempt < 5 && share < 0.8; ++attempt)
    share = comm::sum(*test::world_communicator(), std::vector{hidden_share(name, strategy, least_transfers)}).front() / 2;
  EXPECT_GE(share, 0.8);
}

/// A gather of each unit for each pass, and a reduction.
RANKS_TEST(Overlap, HidesMostOfWhatFsdp2Transfers, 2) { expect_mostly_hidden("fsdp2", config::Strategy::Fsdp2, 3 * kLayers); }
/// A reduction of each unit.
RANKS_TEST(Overlap, HidesMostOfWhatDdpTransfers, 2) { expect_mostly_hidden("ddp", config::Strategy::Ddp, kLayers); }

}  // namespace
}  // namespace tessera::train
