#include "tessera/parallel/context/all_gather.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "tessera/comm/values.h"
#include "tessera/ops/kernel_types.h"
#include "tessera/parallel/context/blocks.h"

namespace tessera::parallel {
namespace {

struct GatheredCall {
  model::Inputs inputs;
  ops::AttentionOptions options;
  at::Tensor query;      // [B, T', H, C]
  at::Tensor key_value;  // [B · T', 2, K, C]
  TokenPlaces places;
  bool drops;
};

/// Keys or values [B, T, K, C] of the whole rows, of [B · T, 2, K, C].
at::Tensor part_of_rows(const GatheredCall& call, const at::Tensor& rows, std::int64_t which) {
  return rows.select(1, which).unflatten(0, {call.inputs.num_rows(), call.inputs.whole_length});
}

/// Keys and values of the whole rows, [B · T, 2, K, C]. What is nowhere is padding, which no query sees.
at::Tensor gather_rows(comm::Communicator& group, const GatheredCall& call) {
  const at::Tensor& own = call.key_value;
  at::Tensor all = at::empty({group.size() * own.size(0), 2, own.size(2), own.size(3)}, own.options());
  group.all_gather(own, comm::equal_counts(group, own.numel()), all).wait();
  return call.places.to_tokens(all);
}

/// This rank's part [B · T', 2, K, C] of the sum over ranks of gradients of the whole rows.
at::Tensor scatter_rows(comm::Communicator& group, const GatheredCall& call, const at::Tensor& gradient) {
  at::Tensor part = at::empty(call.key_value.sizes(), gradient.options());
  group.reduce_scatter(call.places.to_places(gradient), comm::equal_counts(group, part.numel()), part).wait();
  return part;
}

/// Calls body(rows, run, first key, number of keys) for each of this rank's runs: it sees its document's keys up to its own end.
template <class Body>
void for_runs(const GatheredCall& call, const Body& body) {
  for (const RowGroup& rows : row_groups(call.inputs)) {
    for (const model::TokenRun& run : runs_of(call.inputs, call.inputs.context_rank, rows)) {
      const std::int64_t first = call.inputs.document_starts.empty()
                                     ? 0
                                     : call.inputs.document_starts[static_cast<std::size_t>(rows.first)][static_cast<std::size_t>(run.document)];
      body(rows, run, first, run.position + run.length - first);
    }
  }
}

class AllGatherAttention : public model::Attention {
 public:
  explicit AllGatherAttention(comm::Communicator& group) : group_(group) {}

  ops::Variable operator()(ops::Tape& tape, std::size_t, const model::Inputs& inputs, const ops::Variable& query_BTHC, const ops::Variable& key_BTKC,
                           const ops::Variable& value_BTKC, const ops::AttentionOptions& options) override {
    const GatheredCall call{
        inputs, options, query_BTHC.value, at::stack({key_BTKC.value, value_BTKC.value}, 2).flatten(0, 1), TokenPlaces(inputs), tape.training()};
    const ops::AttentionResult own = forward(call);
    const ops::AttentionResult result = options.sinks == nullptr ? own : ops::with_sinks(own, options);
    ops::Variable output = tape.variable(result.output_BTHC.view({call.query.size(0) * call.query.size(1), -1}));
    tape.record([this, call, result, query = query_BTHC.gradient, key = key_BTKC.gradient, value = value_BTKC.gradient, out = output.gradient] {
      if (out->empty()) return;
      const at::Tensor output_gradient = out->take().view(result.output_BTHC.sizes());
      if (call.options.sinks != nullptr) ops::deliver_sinks_gradient(call.options, result, output_gradient);
      const ops::HeadGradients gradients = backward(call, result, output_gradient);
      query->add_owned(gradients.query);
      key->add_owned(gradients.key);
      value->add_owned(gradients.value);
    });
    return output;
  }

 private:
  ops::AttentionResult forward(const GatheredCall& call) const {
    const at::Tensor rows_of_all = gather_rows(group_, call);
    const at::Tensor keys = part_of_rows(call, rows_of_all, 0), values = part_of_rows(call, rows_of_all, 1), &query = call.query;
    ops::AttentionResult result{at::zeros_like(query, at::MemoryFormat::Contiguous),
                                at::zeros({query.size(0), query.size(2), query.size(1)}, query.options().dtype(ops::compute_type(query)))};
    for_runs(call, [&](const RowGroup& rows, const model::TokenRun& run, std::int64_t first, std::int64_t count) {
      const ops::AttentionResult part =
          ops::attention_forward(tokens_of(query, rows, run), rows.of(keys).narrow(1, first, count), rows.of(values).narrow(1, first, count),
                                 options_between(call.options, rows, run.position, first), call.drops, false);
      tokens_of(result.output_BTHC, rows, run).copy_(part.output_BTHC);
      rows.of(result.lse_BHT).narrow(2, run.place, run.length).copy_(part.lse_BHT);
    });
    return result;
  }

  ops::HeadGradients backward(const GatheredCall& call, const ops::AttentionResult& result, const at::Tensor& output_gradient) const {
    const at::Tensor rows_of_all = gather_rows(group_, call);
    const at::Tensor keys = part_of_rows(call, rows_of_all, 0), values = part_of_rows(call, rows_of_all, 1);
    const auto single = call.query.options().dtype(ops::compute_type(call.query));
    const at::Tensor query_gradient = at::zeros(call.query.sizes(), single), gradient = at::zeros(rows_of_all.sizes(), single);
    for_runs(call, [&](const RowGroup& rows, const model::TokenRun& run, std::int64_t first, std::int64_t count) {
      const ops::HeadGradients part =
          ops::attention_backward(tokens_of(call.query, rows, run), rows.of(keys).narrow(1, first, count), rows.of(values).narrow(1, first, count),
                                  {tokens_of(result.output_BTHC, rows, run), rows.of(result.lse_BHT).narrow(2, run.place, run.length).contiguous()},
                                  tokens_of(output_gradient, rows, run), options_between(call.options, rows, run.position, first), call.drops, true);
      tokens_of(query_gradient, rows, run).copy_(part.query);
      rows.of(part_of_rows(call, gradient, 0)).narrow(1, first, count).add_(part.key);
      rows.of(part_of_rows(call, gradient, 1)).narrow(1, first, count).add_(part.value);
    });
    const auto type = call.query.scalar_type();
    const at::Tensor own = scatter_rows(group_, call, gradient).to(type).unflatten(0, {call.query.size(0), call.query.size(1)});
    return {query_gradient.to(type), own.select(2, 0), own.select(2, 1)};
  }

  comm::Communicator& group_;
};

}  // namespace

std::unique_ptr<model::Attention> all_gather_attention(comm::Communicator& group) { return std::make_unique<AllGatherAttention>(group); }

}  // namespace tessera::parallel
