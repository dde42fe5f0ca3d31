// What a layer sends over tp and cp is what docs/parallelism.md says.
#include "distributed/counting_communicator.h"
#include "distributed/ranks.h"
#include "support/support.h"
#include "tessera/comm/forwarding_communicator.h"
#include "tessera/model/config.h"
#include "tessera/train/step.h"

namespace tessera::test {
namespace {

using comm::OperationKind;

constexpr std::int64_t kRows = 2, kLength = 48, kTokens = kRows * kLength;
constexpr std::int64_t kHidden = 32, kHeads = 8, kKeyHeads = 4, kHeadDim = 4;

model::ModelSpec llama(std::int64_t layers, std::int64_t num_key_heads) {
  return model::model_spec_from_json({{"model_type", "llama"},
                                      {"vocab_size", 64},
                                      {"hidden_size", kHidden},
                                      {"intermediate_size", 64},
                                      {"num_hidden_layers", layers},
                                      {"num_attention_heads", kHeads},
                                      {"num_key_value_heads", num_key_heads},
                                      {"head_dim", kHeadDim},
                                      {"max_position_embeddings", kLength}},
                                     "the test's model");
}

data::Batch batch() {
  data::Batch result{.rows = kRows, .length = kLength};
  for (std::int64_t token = 0; token < kTokens; ++token) {
    result.input_ids.push_back(token % 64);
    result.labels.push_back((token + 1) % 64);
    result.position_ids.push_back(token % kLength);
  }
  result.lengths.assign(kRows, kLength);
  result.numbers = {0, 1};
  return result;
}

/// One forward and backward pass, in fp32, without data parallelism's own traffic: weights are whole on every rank.
comm::Traffic traffic_of(const config::Distributed& distributed, std::int64_t layers, std::int64_t num_key_heads) {
  comm::Traffic traffic;
  const auto counting = comm::decorated_backend(backend(), [&](auto inner) { return comm::counting_communicator(std::move(inner), traffic); });
  const auto setup = parallel::DistributedSetup::build(*counting, distributed);
  parallel::CausalLM model = parallel::CausalLM::from_config(llama(layers, num_key_heads), 1, setup, {.dtype = DType::F32, .trainable = true});
  model.model.decoder->set_unit_hooks(nullptr);
  model.model.store->start_gradients();
  traffic = {};
  ops::Tape tape;
  train::loss_of(tape, model, batch(), 0.01);
  tape.backward();
  return traffic;
}

/// Bytes of one layer, by kind of operation.
std::map<OperationKind, std::int64_t> bytes_of_a_layer(const config::Distributed& distributed, std::int64_t num_key_heads = kKeyHeads) {
  const comm::Traffic three = traffic_of(distributed, 3, num_key_heads), two = traffic_of(distributed, 2, num_key_heads);
  std::map<OperationKind, std::int64_t> bytes;
  for (const auto kind :
       {OperationKind::AllReduce, OperationKind::ReduceScatter, OperationKind::AllGather, OperationKind::AllToAll, OperationKind::Send})
    if (const std::int64_t more = three.bytes(kind) - two.bytes(kind); more != 0) bytes[kind] = more;
  return bytes;
}

/// Weights stay whole, whatever the strategy would do: zero-0 keeps them.
config::Distributed over(std::int64_t tp, std::int64_t cp) {
  config::Distributed distributed{.strategy = config::Strategy::MegatronFsdp, .sizes = {.tp_size = tp, .cp_size = cp}};
  distributed.megatron_fsdp.zero_dp_strategy = 0;
  return distributed;
}

using Bytes = std::map<OperationKind, std::int64_t>;
constexpr std::int64_t kFloat = 4;

RANKS_TEST(Traffic, OfTensorParallelLayers, 2, 4) {
  const std::int64_t n = backend().world_size();
  const std::int64_t message = (n - 1) * kTokens / n * kHidden * kFloat;  // of a reduce-scatter or an all-gather
  EXPECT_EQ(bytes_of_a_layer(over(n, 1)), (Bytes{{OperationKind::AllReduce, 4 * 2 * message}}));
  config::Distributed sequence{.sizes = {.tp_size = n}, .sequence_parallel = true};
  EXPECT_EQ(bytes_of_a_layer(sequence), (Bytes{{OperationKind::ReduceScatter, 4 * message}, {OperationKind::AllGather, 6 * message}}));
  sequence.enable_async_tensor_parallel = true;
  // Two gathers of the backward pass, of inputs for weights' gradients, stay whole.
  EXPECT_EQ(bytes_of_a_layer(sequence), (Bytes{{OperationKind::Send, 8 * message}, {OperationKind::AllGather, 2 * message}}));
}

RANKS_TEST(Traffic, OfContextParallelLayers, 2, 4) {
  const std::int64_t n = backend().world_size(), tokens = kTokens / n;
  const std::int64_t keys = tokens * 2 * kKeyHeads * kHeadDim * kFloat, queries = tokens * kHeads * kHeadDim * kFloat;
  config::Distributed ring = over(1, n), gather = ring, exchange = ring;
  gather.cp_attention = config::CpAttention::AllGather;
  exchange.cp_attention = config::CpAttention::AllToAll;
  EXPECT_EQ(bytes_of_a_layer(ring), (Bytes{{OperationKind::Send, (2 * (n - 1) + n) * keys}}));
  EXPECT_EQ(bytes_of_a_layer(gather), (Bytes{{OperationKind::AllGather, 2 * (n - 1) * keys}, {OperationKind::ReduceScatter, (n - 1) * keys}}));
  EXPECT_EQ(bytes_of_a_layer(exchange), (Bytes{{OperationKind::AllToAll, 2 * (n - 1) * (2 * queries + keys) / n}}));
}

/// Each of two key/value heads goes to two ranks: as many travel as there are ranks.
RANKS_TEST(Traffic, OfHeadsThatSeveralRanksAttendWith, 4) {
  const std::int64_t n = backend().world_size(), tokens = kTokens / n;
  const std::int64_t keys = tokens * 2 * n * kHeadDim * kFloat, queries = tokens * kHeads * kHeadDim * kFloat;
  config::Distributed exchange = over(1, n);
  exchange.cp_attention = config::CpAttention::AllToAll;
  EXPECT_EQ(bytes_of_a_layer(exchange, 2), (Bytes{{OperationKind::AllToAll, 2 * (n - 1) * (2 * queries + keys) / n}}));
}

}  // namespace
}  // namespace tessera::test
