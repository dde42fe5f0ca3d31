#include "tessera/parallel/causal_lm.h"

#include <algorithm>

#include "tessera/parallel/context/attention.h"
#include "tessera/parallel/expert/dispatcher.h"
#include "tessera/parallel/pipeline/stage_table.h"
#include "tessera/parallel/rank_table.h"
#include "tessera/parallel/tensor/projections.h"

namespace tessera::parallel {
namespace {

/// Of activations in host memory, per rank.
constexpr std::int64_t kMostHostBytes = std::int64_t{64} << 30;

/// Null where the group has one member.
model::SumOverRanks sum_over(const DistributedSetup& setup, mesh::AxisSet axes) {
  if (setup.mesh->size(axes) == 1) return nullptr;
  return [&group = setup.communicators->get(axes)](const at::Tensor& tensor) { group.all_reduce(tensor).wait(); };
}

/// Where experts live, and who else has tokens of theirs: the ranks of tp too, each working on a part of what all have.
void set_expert_seams(const DistributedSetup& setup, model::DecoderSeams& seams) {
  if (setup.mesh->size(mesh::Axis::Expert) > 1) seams.dispatcher = expert_parallel_dispatcher(setup.communicators->get(mesh::Axis::Expert));
  seams.sum_over_sequence = sum_over(setup, mesh::Axis::Context | mesh::Axis::Tensor);
  seams.sum_over_microbatch = sum_over(setup, mesh::kDpCp | mesh::Axis::Tensor);
}

/// What this rank computes of every layer, and whom it asks for the rest. `stages`: of the pipeline; null without one.
model::LayerShare layer_share(const model::ModelSpec& spec, const DistributedSetup& setup, const TensorShare& tensor,
                              const pipeline::StagePlan* stages) {
  model::LayerShare share{.table = rank_table(spec, tensor, stages, *setup.mesh)};
  if (setup.strategy.offload_activations) share.seams.activation_pool = std::make_unique<ops::ActivationPool>(kMostHostBytes);
  if (setup.mesh->size(mesh::Axis::Context) > 1)
    share.seams.attention = context_parallel_attention(setup.communicators->get(mesh::Axis::Context), setup.strategy.cp_attention);
  if (spec.experts) set_expert_seams(setup, share.seams);
  if (tensor.size == 1) return share;
  share.spec = tensor_parallel_spec(spec, tensor);
  share.seams.projections =
      tensor_parallel_projections(setup.communicators->get(mesh::Axis::Tensor), {.sequence_parallel = tensor.sequence_parallel,
                                                                                 .overlap_chunks = setup.strategy.enable_async_tensor_parallel,
                                                                                 .plan = tensor.plan,
                                                                                 .vocab_size = spec.vocab_size,
                                                                                 .query_width = spec.num_attention_heads * spec.head_dim,
                                                                                 .key_width = spec.num_key_value_heads * spec.head_dim,
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

/// The other rank that holds a tied embedding, and this one; null where there is none.
comm::Communicator* tied_group(const model::ModelSpec& spec, const DistributedSetup& setup, const std::optional<PipelinePlan>& plan) {
  if (!plan) return nullptr;
  const std::vector<int> ranks = pipeline::tied_ranks(model::parameter_table(spec), plan->stages);
  if (std::ranges::count(ranks, setup.mesh->index(mesh::Axis::PipelineParallel)) == 0) return nullptr;
  return &setup.communicators->pair(mesh::Axis::PipelineParallel, static_cast<std::size_t>(ranks[0]), static_cast<std::size_t>(ranks[1]));
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
  std::optional<PipelinePlan> pipeline = plan_pipeline(setup.strategy, spec, static_cast<int>(num_microbatches), nullptr, problems);
  problems.throw_if_any();
  const DType dtype = options.dtype.value_or(model::default_compute_dtype(spec));
  const DataParallelPolicy policy = data_parallel_policy(setup.strategy, dtype, num_microbatches);
  options.placement = placement(policy, mesh);
  options.expert_placement = expert_placement(policy, mesh);
  options.full_precision = full_precision(setup.strategy, dtype);
  CausalLM result{.model = make(options, layer_share(spec, setup, tensor, pipeline ? &pipeline->stages : nullptr)),
                  .policy = policy,
                  .engine = nullptr,
                  .pipeline = nullptr,
                  .mesh = setup.mesh.get(),
                  .communicators = setup.communicators.get()};
  result.engine = std::make_unique<DataParallelEngine>(
      *result.model.store, policy,
      EngineGroups{.shared = shard_groups(shard_axes(policy), *setup.communicators),
                   .experts = options.expert_placement ? shard_groups(expert_shard_axes(policy), *setup.communicators) : ShardGroups(),
                   .holders = holder_groups(spec, setup, tensor),
                   .tied = tied_group(spec, setup, pipeline)});
  result.model.decoder->set_unit_hooks(result.engine.get());
  result.engine->weights_loaded();
  if (!pipeline) return result;
  const pipeline::Channels channels{setup.communicators->channel(mesh::Axis::PipelineParallel, "activations"),
                                    setup.communicators->channel(mesh::Axis::PipelineParallel, "gradients")};
  result.pipeline = std::make_unique<PipelinePasses>(std::move(*pipeline), *result.model.decoder, *result.model.store, *result.engine, channels);
  return result;
}

}  // namespace

ContextShare CausalLM::share_of(const model::Inputs& inputs, const at::Tensor& labels_BT) const {
  return split_context(inputs, labels_BT, mesh->size(mesh::Axis::Context), mesh->index(mesh::Axis::Context));
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
