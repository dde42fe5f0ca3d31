#include "tessera/parallel/causal_lm.h"

namespace tessera::parallel {
namespace {

template <class Make>
CausalLM distribute(const model::ModelSpec& spec, const DistributedSetup& setup, model::CausalLMOptions options, std::int64_t num_microbatches,
                    const Make& make) {
  const DType dtype = options.dtype.value_or(model::default_compute_dtype(spec));
  const DataParallelPolicy policy = data_parallel_policy(setup.strategy, dtype, num_microbatches);
  options.placement = placement(policy, *setup.mesh);
  CausalLM result{.model = make(options), .policy = policy, .engine = nullptr, .data_group = &setup.data_group()};
  const bool shards = policy.sharding != Sharding::None;
  comm::Communicator& shard_group = setup.communicators->get(shards ? mesh::kDpShardCp : mesh::AxisSet());
  comm::Communicator& replica_group = setup.communicators->get(shards ? mesh::AxisSet(mesh::Axis::DataReplicate) : mesh::kDpCp);
  result.engine = std::make_unique<DataParallelEngine>(*result.model.store, policy, shard_group, replica_group);
  result.model.decoder->set_unit_hooks(result.engine.get());
  result.engine->weights_loaded();
  return result;
}

template <class Whole>
std::map<std::string, at::Tensor> by_tensor(const model::ParameterStore& store, const Whole& whole_buffer) {
  std::map<std::string, at::Tensor> tensors;
  for (const model::FlatBuffer& buffer : store.buffers()) {
    const at::Tensor whole = whole_buffer(buffer);
    if (!whole.defined()) continue;
    for (const model::FlatRange& range : buffer.ranges)
      for (const model::PlacedPiece& piece : model::pieces_within(store.table().parameters[range.parameter], range, {0, buffer.num_elements()}))
        tensors.emplace(piece.piece.tensor, model::checkpoint_view(whole, piece, 0));
  }
  return tensors;
}

}  // namespace

std::map<std::string, at::Tensor> whole_gradients(const CausalLM& model) {
  return by_tensor(*model.model.store,
                   [&](const model::FlatBuffer& buffer) { return buffer.trainable ? model.engine->whole_gradient(buffer) : at::Tensor(); });
}

std::map<std::string, at::Tensor> whole_weights(const CausalLM& model) {
  return by_tensor(*model.model.store, [&](const model::FlatBuffer& buffer) { return model.engine->whole_master(buffer); });
}

CausalLM CausalLM::from_pretrained(const std::filesystem::path& directory, const model::ModelSpec& spec, const DistributedSetup& setup,
                                   model::CausalLMOptions options, std::int64_t num_microbatches) {
  return distribute(spec, setup, std::move(options), num_microbatches,
                    [&](const model::CausalLMOptions& placed) { return model::CausalLM::from_pretrained(directory, spec, placed); });
}

CausalLM CausalLM::from_config(const model::ModelSpec& spec, std::uint64_t seed, const DistributedSetup& setup, model::CausalLMOptions options,
                               std::int64_t num_microbatches) {
  return distribute(spec, setup, std::move(options), num_microbatches,
                    [&](const model::CausalLMOptions& placed) { return model::CausalLM::from_config(spec, seed, placed); });
}

}  // namespace tessera::parallel
