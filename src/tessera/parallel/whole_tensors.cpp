#include "tessera/parallel/whole_tensors.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "tessera/parallel/context/blocks.h"

namespace tessera::parallel {
namespace {

/// The box of a checkpoint tensor that a piece is.
at::Tensor box_of(at::Tensor tensor, const model::Piece& piece) {
  for (std::size_t dim = 0; dim < piece.size.size(); ++dim)
    tensor = tensor.narrow(static_cast<std::int64_t>(dim), piece.offset[dim], piece.size[dim]);
  return tensor;
}

bool is_trained(const model::ParameterStore& store, const model::ParameterSpec& parameter) {
  const model::ParameterStore::Options& options = store.options();
  return options.trainable && !(options.frozen && options.frozen(parameter));
}

/// Adds up the ranks of tensor, pipeline and expert parallelism, each giving what it alone owns. `wanted`: parameters of the whole model whose
/// buffers `whole_buffer` gives.
template <class Wanted, class Whole>
std::map<std::string, at::Tensor> by_tensor(const CausalLM& model, const Wanted& wanted, const Whole& whole_buffer) {
  const model::ParameterStore& store = *model.model.store;
  std::map<std::string, at::Tensor> tensors;
  const bool wide = store.options().compute_dtype == DType::F64;
  for (const model::ParameterSpec& parameter : model::parameter_table(model.model.spec).parameters)
    if (wanted(parameter))
      for (const model::Piece& piece : parameter.pieces)
        tensors.emplace(piece.tensor, at::zeros(piece.tensor_shape, at::TensorOptions().dtype(wide ? at::kDouble : at::kFloat)));
  for (const model::FlatBuffer& buffer : store.buffers()) {
    const at::Tensor whole = whole_buffer(buffer);
    if (!whole.defined() || (!buffer.experts && model.mesh->index(mesh::Axis::Expert) > 0)) continue;
    for (const model::FlatRange& range : buffer.ranges) {
      const model::ParameterSpec& parameter = store.table().parameters[range.parameter];
      for (const model::Extent& own : model::owned_extents(store.table(), {range}, {range.begin, range.begin + range.size}))
        for (const model::PlacedPiece& placed : model::pieces_within(parameter, range, own))
          box_of(tensors.at(placed.piece.tensor), placed.piece).copy_(model::checkpoint_view(whole, placed, 0));
    }
  }
  comm::Communicator& group = model.group(mesh::Axis::Tensor | mesh::Axis::PipelineParallel | mesh::Axis::Expert);
  for (const auto& [name, tensor] : tensors) group.all_reduce(tensor).wait();
  return tensors;
}

at::Tensor own_logits(const model::Decoder& decoder, const model::Inputs& inputs) {
  ops::Tape tape(ops::Tape::Mode::Inference);
  model::Decoder::Hidden hidden = decoder.hidden(tape, inputs);
  at::Tensor logits = decoder.logits(hidden.states.value, inputs.num_rows() * inputs.length());
  hidden.head_unit.leave();
  return logits;
}

}  // namespace

at::Tensor whole_logits(const CausalLM& model, const model::Inputs& inputs) {
  const ContextShare share = model.share_of(inputs, at::zeros_like(inputs.input_ids_BT));
  const at::Tensor logits = model.pipeline ? model.pipeline->logits(share) : own_logits(*model.model.decoder, share.inputs);
  if (share.inputs.runs_of_ranks.empty()) return logits;
  return gather_tokens(model.group(mesh::Axis::Context), share.inputs, logits);
}

std::map<std::string, at::Tensor> whole_gradients(const CausalLM& model) {
  const auto trained = [&](const model::ParameterSpec& parameter) { return is_trained(*model.model.store, parameter); };
  return by_tensor(model, trained,
                   [&](const model::FlatBuffer& buffer) { return buffer.trainable ? model.engine->whole_gradient(buffer) : at::Tensor(); });
}

std::map<std::string, at::Tensor> whole_weights(const CausalLM& model) {
  const auto all = [](const model::ParameterSpec&) { return true; };
  return by_tensor(model, all, [&](const model::FlatBuffer& buffer) { return model.engine->whole_master(buffer); });
}

}  // namespace tessera::parallel
