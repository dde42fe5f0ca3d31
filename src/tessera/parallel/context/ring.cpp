#include "tessera/parallel/context/ring.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <utility>

#include "tessera/ops/kernel_types.h"
#include "tessera/parallel/context/blocks.h"

namespace tessera::parallel {
namespace {

/// Blocks of keys and values, [2, B, T, K, C], as they pass this rank. All ranks pass the same number on.
class PassingBlocks {
 public:
  PassingBlocks(comm::Communicator& group, const at::Tensor& key_BTKC, const at::Tensor& value_BTKC)
      : group_(group), here_(at::stack({key_BTKC, value_BTKC})) {}

  /// Whose block is here.
  std::int64_t source() const { return (group_.rank() - step_ + group_.size()) % group_.size(); }
  bool last() const { return step_ + 1 == group_.size(); }
  const at::Tensor& here() const { return here_; }

  /// Sends on what is here and asks for what comes next, while `here` is computed on.
  void exchange() {
    if (last()) return;
    coming_ = at::empty_like(here_);
    sent_ = group_.send(here_, (group_.rank() + 1) % group_.size());
    received_ = group_.receive(coming_, (group_.rank() - 1 + group_.size()) % group_.size());
  }
  void advance() {
    ++step_;
    if (step_ == group_.size()) return;
    sent_.wait();
    received_.wait();
    here_ = std::exchange(coming_, at::Tensor());
  }
  bool done() const { return step_ == group_.size(); }

 private:
  comm::Communicator& group_;
  int step_ = 0;
  at::Tensor here_, coming_;
  comm::Work sent_, received_;
};

/// What one layer computes with.
struct RingCall {
  model::Inputs inputs;
  ops::AttentionOptions options;
  at::Tensor query, key, value;  // [B, T, heads, C]
  bool drops;
};

/// Calls body(group, query run, key run) for every pair of this rank's runs and another's that see each other.
template <class Body>
void for_blocks(const RingCall& call, std::int64_t rank, std::int64_t source, const Body& body) {
  for (const RowGroup& group : row_groups(call.inputs))
    for (const model::TokenRun& query : runs_of(call.inputs, rank, group))
      for (const model::TokenRun& key : runs_of(call.inputs, source, group))
        if (reaches(query, key, call.options)) body(group, query, key);
}

/// [rows, heads, T] to the tokens of a run.
at::Tensor lse_of(const at::Tensor& lse_BHT, const RowGroup& group, const model::TokenRun& run) {
  return group.of(lse_BHT).narrow(2, run.place, run.length);
}

/// result = the softmax over the keys of both.
void merge(const at::Tensor& output_BTHC, const at::Tensor& lse_BHT, const ops::AttentionResult& more) {
  const at::Tensor lse = at::logaddexp(lse_BHT, more.lse_BHT);
  // Where neither sees anything all of them are −infinity.
  const auto weight = [&](const at::Tensor& part) { return (part - lse).exp().nan_to_num(0.0).transpose(1, 2).unsqueeze(-1); };
  const at::Tensor kept = weight(lse_BHT), added = weight(more.lse_BHT);
  at::Tensor(output_BTHC).mul_(kept).addcmul_(more.output_BTHC, added);
  at::Tensor(lse_BHT).copy_(lse);
}

ops::AttentionResult forward(comm::Communicator& group, const RingCall& call) {
  const auto single = call.query.options().dtype(ops::compute_type(call.query));
  ops::AttentionResult result{
      at::zeros({call.query.size(0), call.query.size(1), call.query.size(2), call.value.size(3)}, single),
      at::full({call.query.size(0), call.query.size(2), call.query.size(1)}, -std::numeric_limits<double>::infinity(), single)};
  for (PassingBlocks blocks(group, call.key, call.value); !blocks.done(); blocks.advance()) {
    blocks.exchange();
    for_blocks(call, group.rank(), blocks.source(), [&](const RowGroup& rows, const model::TokenRun& query, const model::TokenRun& key) {
      const ops::AttentionResult block =
          ops::attention_forward(tokens_of(call.query, rows, query), tokens_of(blocks.here()[0], rows, key), tokens_of(blocks.here()[1], rows, key),
                                 options_between(call.options, rows, query.position, key.position), call.drops, true);
      merge(tokens_of(result.output_BTHC, rows, query), lse_of(result.lse_BHT, rows, query), block);
    });
  }
  result.output_BTHC = result.output_BTHC.to(call.query.scalar_type());
  return result;
}

/// Adds one block's share of the gradients to those of all queries, and of the keys and values that are here.
void add_block_gradients(const RingCall& call, const ops::AttentionResult& result, const at::Tensor& output_gradient, const PassingBlocks& blocks,
                         std::int64_t rank, const at::Tensor& query_gradient, const at::Tensor& block_gradient) {
  for_blocks(call, rank, blocks.source(), [&](const RowGroup& rows, const model::TokenRun& query, const model::TokenRun& key) {
    const ops::HeadGradients gradients = ops::attention_backward(
        tokens_of(call.query, rows, query), tokens_of(blocks.here()[0], rows, key), tokens_of(blocks.here()[1], rows, key),
        {tokens_of(result.output_BTHC, rows, query), lse_of(result.lse_BHT, rows, query).contiguous()}, tokens_of(output_gradient, rows, query),
        options_between(call.options, rows, query.position, key.position), call.drops, true);
    tokens_of(query_gradient, rows, query).add_(gradients.query);
    tokens_of(block_gradient[0], rows, key).add_(gradients.key);
    tokens_of(block_gradient[1], rows, key).add_(gradients.value);
  });
}

ops::HeadGradients backward(comm::Communicator& group, const RingCall& call, const ops::AttentionResult& result, const at::Tensor& output_gradient) {
  const auto single = call.query.options().dtype(ops::compute_type(call.query));
  const int next = (group.rank() + 1) % group.size(), previous = (group.rank() - 1 + group.size()) % group.size();
  const at::Tensor query_gradient = at::zeros(call.query.sizes(), single);
  at::Tensor coming;  // what other ranks have added to the gradient of the next block
  comm::Work sent, received;
  for (PassingBlocks blocks(group, call.key, call.value); !blocks.done(); blocks.advance()) {
    blocks.exchange();
    at::Tensor block_gradient = at::zeros(blocks.here().sizes(), single);
    add_block_gradients(call, result, output_gradient, blocks, group.rank(), query_gradient, block_gradient);
    sent.wait();
    received.wait();
    if (coming.defined()) block_gradient.add_(coming);
    coming = at::empty_like(block_gradient);
    sent = group.send(block_gradient, next);
    received = group.receive(coming, previous);
  }
  sent.wait();
  received.wait();
  const auto type = call.query.scalar_type();
  return {query_gradient.to(type), coming[0].to(type), coming[1].to(type)};
}

class RingAttention : public model::Attention {
 public:
  explicit RingAttention(comm::Communicator& group) : group_(group) {}

  ops::Variable operator()(ops::Tape& tape, std::size_t, const model::Inputs& inputs, const ops::Variable& query_BTHC, const ops::Variable& key_BTKC,
                           const ops::Variable& value_BTKC, const ops::AttentionOptions& options) override {
    const RingCall call{inputs, options, query_BTHC.value, key_BTKC.value, value_BTKC.value, tape.training()};
    const ops::AttentionResult own = forward(group_, call);
    const ops::AttentionResult result = options.sinks == nullptr ? own : ops::with_sinks(own, options);
    ops::Variable output = tape.variable(result.output_BTHC.view({call.query.size(0) * call.query.size(1), -1}));
    tape.record([this, call, result, query = query_BTHC.gradient, key = key_BTKC.gradient, value = value_BTKC.gradient, out = output.gradient] {
      if (out->empty()) return;
      const at::Tensor output_gradient = out->take().view(result.output_BTHC.sizes());
      if (call.options.sinks != nullptr) ops::deliver_sinks_gradient(call.options, result, output_gradient);
      const ops::HeadGradients gradients = backward(group_, call, result, output_gradient);
      query->add_owned(gradients.query);
      key->add_owned(gradients.key);
      value->add_owned(gradients.value);
    });
    return output;
  }

 private:
  comm::Communicator& group_;
};

}  // namespace

std::unique_ptr<model::Attention> ring_attention(comm::Communicator& group) { return std::make_unique<RingAttention>(group); }

}  // namespace tessera::parallel
