#include "tessera/parallel/causal_lm.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "tessera/parallel/context/attention.h"
#include "tessera/parallel/context/blocks.h"
#include "tessera/parallel/tensor/projections.h"

namespace tessera::parallel {
namespace {

/// Of activations in host memory, per rank.
constexpr std::int64_t kMostHostBytes = std::int64_t{64} << 30;

/// What this rank computes of every layer, and whom it asks for the rest.
model::LayerShare layer_share(const model::ModelSpec& spec, const DistributedSetup& setup, const TensorShare& tensor) {
  model::LayerShare share;
  if (setup.strategy.offload_activations) share.seams.activation_pool = std::make_unique<ops::ActivationPool>(kMostHostBytes);
  if (setup.mesh->size(mesh::Axis::Context) > 1)
    share.seams.attention = context_parallel_attention(setup.communicators->get(mesh::Axis::Context), setup.strategy.cp_attention);
  if (tensor.size == 1) return share;
  share.spec = tensor_parallel_spec(spec, tensor);
  share.table = tensor_parallel_table(spec, tensor);
  share.seams.projections =
      tensor_parallel_projections(setup.communicators->get(mesh::Axis::Tensor), {.sequence_parallel = tensor.sequence_parallel,
                                                                                 .overlap_chunks = setup.strategy.enable_async_tensor_parallel,
                                                                                 .plan = tensor.plan,
                                                                                 .vocab_size = spec.vocab_size,
                                                                                 .num_query_width = spec.num_attention_heads * spec.head_dim,
                                                                                 .num_key_width = spec.num_key_value_heads * spec.head_dim,
                                                                                 .key_value_holders = key_value_holders(spec, tensor)});
  if (tensor.plan.attention) share.seams.first_head = tensor.rank * share.spec->num_attention_heads;
  return share;
}

/// The groups in which replicated rows of tensor parallelism are summed: all of it, and the holders of one key/value head.
HolderGroups holder_groups(const model::ModelSpec& spec, const DistributedSetup& setup, const TensorShare& tensor) {
  HolderGroups groups;
  for (const std::int64_t holders : {tensor.size, key_value_holders(spec, tensor)})
    if (holders > 1) groups.emplace(holders, &setup.communicators->get(mesh::Axis::Tensor, holders));
  return groups;
}

template <class Make>
CausalLM distribute(const model::ModelSpec& spec, const DistributedSetup& setup, model::CausalLMOptions options, std::int64_t num_microbatches,
                    const Make& make) {
  ProblemList problems;
  const mesh::MeshContext& mesh = *setup.mesh;
  const TensorShare tensor{.size = mesh.size(mesh::Axis::Tensor),
                           .rank = mesh.index(mesh::Axis::Tensor),
                           .sequence_parallel = setup.strategy.sequence_parallel,
                           .plan = plan_split(setup.strategy, spec, nullptr, problems)};
  problems.throw_if_any();
  const DType dtype = options.dtype.value_or(model::default_compute_dtype(spec));
  const DataParallelPolicy policy = data_parallel_policy(setup.strategy, dtype, num_microbatches);
  options.placement = placement(policy, *setup.mesh);
  CausalLM result{.model = make(options, layer_share(spec, setup, tensor)),
                  .policy = policy,
                  .engine = nullptr,
                  .mesh = setup.mesh.get(),
                  .communicators = setup.communicators.get()};
  const bool shards = policy.sharding != Sharding::None;
  comm::Communicator& shard_group = setup.communicators->get(shards ? mesh::kDpShardCp : mesh::AxisSet());
  comm::Communicator& replica_group = setup.communicators->get(shards ? mesh::AxisSet(mesh::Axis::DataReplicate) : mesh::kDpCp);
  result.engine = std::make_unique<DataParallelEngine>(*result.model.store, policy, shard_group, replica_group, holder_groups(spec, setup, tensor));
  result.model.decoder->set_unit_hooks(result.engine.get());
  result.engine->weights_loaded();
  return result;
}

/// The box of a checkpoint tensor that a piece is.
at::Tensor box_of(at::Tensor tensor, const model::Piece& piece) {
  for (std::size_t dim = 0; dim < piece.size.size(); ++dim)
    tensor = tensor.narrow(static_cast<std::int64_t>(dim), piece.offset[dim], piece.size[dim]);
  return tensor;
}

/// Adds up the ranks of tensor parallelism, each giving what it alone owns.
template <class Whole>
std::map<std::string, at::Tensor> by_tensor(const CausalLM& model, const Whole& whole_buffer) {
  const model::ParameterStore& store = *model.model.store;
  std::map<std::string, at::Tensor> tensors;
  for (const model::FlatBuffer& buffer : store.buffers()) {
    const at::Tensor whole = whole_buffer(buffer);
    if (!whole.defined()) continue;
    for (const model::FlatRange& range : buffer.ranges) {
      const model::ParameterSpec& parameter = store.table().parameters[range.parameter];
      for (const model::Piece& piece : parameter.pieces)
        if (!tensors.contains(piece.tensor)) tensors.emplace(piece.tensor, at::zeros(piece.tensor_shape, whole.options()));
      for (const model::Extent& own : model::owned_extents(store.table(), {range}, {range.begin, range.begin + range.size}))
        for (const model::PlacedPiece& placed : model::pieces_within(parameter, range, own))
          box_of(tensors.at(placed.piece.tensor), placed.piece).copy_(model::checkpoint_view(whole, placed, 0));
    }
  }
  comm::Communicator& group = model.group(mesh::Axis::Tensor);
  for (const auto& [name, tensor] : tensors) group.all_reduce(tensor).wait();
  return tensors;
}

}  // namespace

ContextShare CausalLM::share_of(const model::Inputs& inputs, const at::Tensor& labels_BT) const {
  return split_context(inputs, labels_BT, mesh->size(mesh::Axis::Context), mesh->index(mesh::Axis::Context));
}

at::Tensor whole_logits(const CausalLM& model, const model::Inputs& inputs) {
  const ContextShare share = model.share_of(inputs, at::zeros_like(inputs.input_ids_BT));
  ops::Tape tape(ops::Tape::Mode::Inference);
  model::Decoder::Hidden hidden = model.model.decoder->hidden(tape, share.inputs);
  const at::Tensor logits = model.model.decoder->logits(hidden.states.value, share.inputs.num_rows() * share.inputs.length());
  hidden.head_unit.leave();
  if (share.inputs.runs_of_ranks.empty()) return logits;
  return gather_tokens(model.group(mesh::Axis::Context), share.inputs, logits);
}

std::map<std::string, at::Tensor> whole_gradients(const CausalLM& model) {
  return by_tensor(model, [&](const model::FlatBuffer& buffer) { return buffer.trainable ? model.engine->whole_gradient(buffer) : at::Tensor(); });
}

std::map<std::string, at::Tensor> whole_weights(const CausalLM& model) {
  return by_tensor(model, [&](const model::FlatBuffer& buffer) { return model.engine->whole_master(buffer); });
}

CausalLM CausalLM::from_pretrained(const std::filesystem::path& directory, const model::ModelSpec& spec, const DistributedSetup& setup,
                                   model::CausalLMOptions options, std::int64_t num_microbatches) {
  return distribute(spec, setup, std::move(options), num_microbatches, [&](const model::CausalLMOptions& placed, model::LayerShare share) {
    return model::CausalLM::from_pretrained(directory, spec, placed, std::move(share));
  });
}

CausalLM CausalLM::from_config(const model::ModelSpec& spec, std::uint64_t seed, const DistributedSetup& setup, model::CausalLMOptions options,
                               std::int64_t num_microbatches) {
  return distribute(spec, setup, std::move(options), num_microbatches, [&](const model::CausalLMOptions& placed, model::LayerShare share) {
    return model::CausalLM::from_config(spec, seed, placed, std::move(share));
  });
}

}  // namespace tessera::parallel
