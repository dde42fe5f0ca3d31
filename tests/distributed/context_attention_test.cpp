// Attention over split rows against attention over the whole rows in fp64.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "distributed/ranks.h"
#include "support/allocation_counter.h"
#include "tessera/comm/forwarding_communicator.h"
#include "tessera/comm/values.h"
#include "tessera/loss/cross_entropy.h"
#include "tessera/model/config.h"
#include "tessera/parallel/causal_lm.h"
#include "tessera/parallel/context/attention.h"
#include "tessera/parallel/context/blocks.h"
#include "tessera/parallel/context/split.h"

namespace tessera::parallel {
namespace {

struct Heads {
  at::Tensor query, key, value, output_gradient;  // [1, T, heads, C]

  template <class Change>
  Heads with(const Change& change) const {
    return {change(query), change(key), change(value), change(output_gradient)};
  }
};

constexpr std::int64_t kHeadDim = 8;

/// The same at every rank.
Heads random_heads(std::int64_t length, std::int64_t heads, std::int64_t value_dim = kHeadDim) {
  const std::int64_t key_heads = std::max<std::int64_t>(1, heads / 4);
  const auto random = [&](std::int64_t count, std::int64_t width, std::uint64_t seed) {
    return at::randn({1, length, count, width}, at::detail::createCPUGenerator(seed), at::TensorOptions().dtype(at::kFloat));
  };
  return {random(heads, kHeadDim, 1), random(key_heads, kHeadDim, 2), random(key_heads, value_dim, 3), random(heads, value_dim, 4)};
}

/// One more logit for each head.
ops::Parameter random_sinks(std::int64_t heads, at::ScalarType type) {
  ops::Parameter sinks;
  sinks.weight = at::randn({heads}, at::detail::createCPUGenerator(5), at::TensorOptions().dtype(at::kFloat)).to(type);
  sinks.gradient = at::zeros_like(sinks.weight);
  sinks.trainable = true;
  return sinks;
}

struct Results {
  at::Tensor output, query_gradient, key_gradient, value_gradient;  // [T, heads · C]
};

/// Attention of one call, forward, `meanwhile` and backward.
Results attend(model::Attention& attention, const model::Inputs& inputs, const Heads& heads, const ops::AttentionOptions& options,
               const std::function<void()>& meanwhile = {}) {
  ops::Tape tape;
  const ops::Variable query = tape.variable(heads.query), key = tape.variable(heads.key), value = tape.variable(heads.value);
  const ops::Variable output = attention(tape, 0, inputs, query, key, value, options);
  output.gradient->add_shared(heads.output_gradient.reshape(output.value.sizes()));
  if (meanwhile) meanwhile();
  tape.backward();
  const auto rows = [](const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1) * tensor.size(-2)}); };
  return {output.value, rows(query.gradient->take()), rows(key.gradient->take()), rows(value.gradient->take())};
}

model::Inputs whole_inputs(std::int64_t length, const std::vector<std::int64_t>& starts) {
  const at::Tensor ids = at::zeros({1, length}, at::kLong);
  model::Inputs inputs{ids, at::arange(length, at::kLong).view({1, -1}), {length}, {0}, {}};
  if (!starts.empty()) inputs.document_starts = {starts};
  return inputs;
}

/// This rank's tokens of a whole row, its padding zero.
Heads share_of(const Heads& heads, const model::Inputs& share) {
  const at::Tensor indices = token_indices(share.runs_of_ranks[static_cast<std::size_t>(share.context_rank)], share.length(), share.whole_length);
  return heads.with([&](const at::Tensor& tensor) { return tensor.index_select(1, indices.clamp_min(0)) * indices.ge(0).view({1, -1, 1, 1}); });
}

double distance(const at::Tensor& actual, const at::Tensor& expected) {
  return (actual - expected).abs().max().item<double>() / expected.abs().max().item<double>();
}

/// What a layer's heads are like.
struct Layer {
  std::int64_t num_heads = 8;
  std::int64_t value_dim = kHeadDim;
  bool sinks = false;
};

void expect_equal_to_whole(config::CpAttention kind, std::int64_t length, const std::vector<std::int64_t>& starts, ops::AttentionOptions options,
                           const Layer& layer = {}) {
  const auto group = test::world_communicator();
  const Heads heads = random_heads(length, layer.num_heads, layer.value_dim);
  const model::Inputs whole = whole_inputs(length, starts);
  options.lengths = whole.lengths;
  options.document_starts = whole.document_starts;
  options.scale = 0.3;
  ops::Parameter sinks = random_sinks(layer.num_heads, at::kFloat), exact_sinks = random_sinks(layer.num_heads, at::kDouble);
  const model::Inputs share = split_context(whole, whole.input_ids_BT, group->size(), group->rank()).inputs;
  const auto attention = context_parallel_attention(*group, kind);
  options.sinks = layer.sinks ? &sinks : nullptr;
  const Results split = attend(*attention, share, share_of(heads, share), options);
  group->all_reduce(sinks.gradient).wait();
  const std::vector<at::Tensor> gathered = {gather_tokens(*group, share, split.output), gather_tokens(*group, share, split.query_gradient),
                                            gather_tokens(*group, share, split.key_gradient), gather_tokens(*group, share, split.value_gradient)};
  if (group->rank() != 0) return;
  options.sinks = layer.sinks ? &exact_sinks : nullptr;
  const Heads exact = heads.with([](const at::Tensor& tensor) { return tensor.to(at::kDouble); });
  const Results expected = attend(*model::local_attention(), whole, exact, options);
  const std::vector<at::Tensor> reference = {expected.output, expected.query_gradient, expected.key_gradient, expected.value_gradient};
  for (std::size_t i = 0; i < reference.size(); ++i) EXPECT_LE(distance(gathered[i], reference[i]), 1e-6) << i;
  if (!layer.sinks) return;
  EXPECT_LE(distance(sinks.gradient, exact_sinks.gradient), 1e-6);
}

constexpr std::array kKinds = {config::CpAttention::Ring, config::CpAttention::AllGather, config::CpAttention::AllToAll};

RANKS_TEST(ContextAttention, EqualsWholeAttention, 2, 4, 8) {
  for (const config::CpAttention kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    expect_equal_to_whole(kind, 61, {}, {});
    expect_equal_to_whole(kind, 64, {}, {.soft_cap = 5.0, .sliding_window = 9});
    expect_equal_to_whole(kind, 61, {0, 1, 3, 30, 52}, {});
    expect_equal_to_whole(kind, 61, {0, 40}, {.sliding_window = 3, .dropout = 0.3, .dropout_key = 9, .sample_numbers = {4}});
  }
}

RANKS_TEST(ContextAttention, RingOfEightAt4096Tokens, 8) { expect_equal_to_whole(config::CpAttention::Ring, 4096, {}, {}, {.num_heads = 1}); }

/// Latent attention's.
RANKS_TEST(ContextAttention, ValuesNarrowerThanKeys, 2, 4) {
  for (const config::CpAttention kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    expect_equal_to_whole(kind, 61, {0, 40}, {}, {.value_dim = 5});
  }
}

/// However many ranks a softmax goes over; each rank has the gradient of its own tokens or heads.
RANKS_TEST(ContextAttention, SinksTakeTheirShareOnce, 2, 4) {
  for (const config::CpAttention kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    expect_equal_to_whole(kind, 61, {0, 40}, {.sliding_window = 9}, {.sinks = true});
  }
}

/// Calls a function once the next message has been sent.
class SendWatcher : public comm::ForwardingCommunicator {
 public:
  explicit SendWatcher(std::unique_ptr<comm::Communicator> inner) : ForwardingCommunicator(std::move(inner)) {}
  void after_next_send(std::function<void()> call) { call_ = std::move(call); }

 private:
  comm::Work around(const comm::OperationDescription& description, const std::function<comm::Work()>& start) override {
    comm::Work work = start();
    if (call_ && description.kind == comm::OperationKind::Send) std::exchange(call_, nullptr)();
    return work;
  }

  std::function<void()> call_;
};

/// Queries that become zero when the first block is on its way are zero for all blocks, the one at hand included.
RANKS_TEST(ContextAttention, TheRingComputesWhileBlocksTravel, 2, 4) {
  SendWatcher group(test::world_communicator());
  const auto ring = context_parallel_attention(group, config::CpAttention::Ring);
  const model::Inputs whole = whole_inputs(61, {});
  const model::Inputs share = split_context(whole, whole.input_ids_BT, group.size(), group.rank()).inputs;
  const ops::AttentionOptions options{.lengths = whole.lengths};
  const auto fresh = [&] { return share_of(random_heads(61, 8), share); };
  Heads heads = fresh();
  group.after_next_send([&] { heads.query.zero_(); });
  const Results forward = attend(*ring, share, heads, options);
  EXPECT_TRUE(forward.output.equal(attend(*ring, share, heads, options).output)) << "forward, with queries that are zero from the start";
  heads = fresh();
  const Results backward = attend(*ring, share, heads, options, [&] { group.after_next_send([&] { heads.query.zero_(); }); });
  EXPECT_EQ(backward.key_gradient.abs().max().item<double>(), 0.0) << "backward: a sum of queries";
}

/// The most that forward and backward hold at once beside weights and gradients, of one layer on one row that is split over the first `ranks` ranks.
std::int64_t activation_peak(std::int64_t length, std::int64_t ranks) {
  const model::ModelSpec spec = model::model_spec_from_json({{"model_type", "llama"},
                                                             {"vocab_size", 32},
                                                             {"hidden_size", 64},
                                                             {"intermediate_size", 128},
                                                             {"num_hidden_layers", 1},
                                                             {"num_attention_heads", 2},
                                                             {"num_key_value_heads", 1},
                                                             {"head_dim", 16},
                                                             {"max_position_embeddings", 65536}},
                                                            "the test's model");
  comm::Backend& all = test::backend();
  const auto self = comm::self_backend();
  // Weights whole on every rank: the data-parallel engine has nothing to gather.
  config::Distributed distributed{.strategy = config::Strategy::MegatronFsdp, .sizes = {.cp_size = ranks}};
  distributed.megatron_fsdp.zero_dp_strategy = 0;
  const auto setup = DistributedSetup::build(ranks == 1 ? *self : all, distributed);
  const CausalLM model = CausalLM::from_config(spec, 1, setup, {.dtype = DType::F32, .trainable = true});
  model.model.decoder->set_unit_hooks(nullptr);
  model.model.store->start_gradients();
  const at::Tensor ids = at::arange(length, at::kLong).remainder(32).view({1, -1});
  const ContextShare share = model.share_of({ids, at::arange(length, at::kLong).view({1, -1}), {length}, {0}, {}}, ids);
  const test::AllocationCounter counter;
  ops::Tape tape;
  loss::causal_language_model(tape, *model.model.decoder, share.inputs, share.labels_BT, 1.0 / static_cast<double>(length));
  tape.backward();
  return counter.peak();
}

RANKS_TEST(ContextAttention, LONG_ActivationsFallWithTheRanks, 2, 4, 8) {
  const auto ranks = test::backend().world_size();
  for (const std::int64_t length : {8192, 65536}) {
    const auto split = static_cast<double>(activation_peak(length, ranks));
    const std::vector<std::int64_t> first{test::backend().rank() == 0 ? activation_peak(length, 1) : 0};
    const auto alone = static_cast<double>(comm::sum(*test::world_communicator(), first).front());
    if (test::backend().rank() == 0)
      fmt::print("{} tokens: {:.1f} MB in one process, {:.1f} MB on each of {} ranks\n", length, alone / 1e6, split / 1e6, ranks);
    EXPECT_LE(split, 1.15 * alone / static_cast<double>(ranks)) << length;
  }
}

}  // namespace
}  // namespace tessera::parallel
