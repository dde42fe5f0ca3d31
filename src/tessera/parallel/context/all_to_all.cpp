#include "tessera/parallel/context/all_to_all.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "tessera/comm/values.h"
#include "tessera/parallel/context/blocks.h"

namespace tessera::parallel {
namespace {

/// The exchange of one tensor: from this rank's tokens with all heads, [B, T', heads, C], to all tokens with this rank's heads, [B, T, n, C], and
/// back.
class HeadExchange {
 public:
  HeadExchange(comm::Communicator& group, const model::Inputs& inputs, std::int64_t num_heads)
      : group_(group),
        rows_(inputs.num_rows()),
        share_length_(inputs.length()),
        length_(inputs.whole_length),
        places_(inputs),
        num_heads_(num_heads),
        heads_per_rank_(std::max<std::int64_t>(1, num_heads / group.size())) {}

  std::int64_t first_head(std::int64_t rank) const { return rank * num_heads_ / group_.size(); }

  /// `tokens` may have its last two dims joined.
  at::Tensor to_heads(const at::Tensor& tokens) const {
    std::vector<at::Tensor> parts;
    const at::Tensor heads = tokens.reshape({rows_, share_length_, num_heads_, -1});
    for (int rank = 0; rank < group_.size(); ++rank) parts.push_back(heads.narrow(2, first_head(rank), heads_per_rank_));
    const at::Tensor received = exchange(at::stack(parts));
    return places_.to_tokens(received.flatten(0, 2)).unflatten(0, {rows_, length_});
  }

  /// Heads that several ranks have are added up.
  at::Tensor to_tokens(const at::Tensor& heads) const {
    const at::Tensor received = exchange(places_.to_places(heads.flatten(0, 1)).unflatten(0, {group_.size(), rows_, share_length_}));
    at::Tensor tokens = at::zeros({rows_, share_length_, num_heads_, heads.size(3)}, heads.options());
    for (int rank = 0; rank < group_.size(); ++rank) tokens.narrow(2, first_head(rank), heads_per_rank_).add_(received[rank]);
    return tokens;
  }

 private:
  /// Part r of the first dim goes to rank r.
  at::Tensor exchange(const at::Tensor& parts) const {
    at::Tensor received = at::empty_like(parts);
    const std::vector<std::int64_t> counts = comm::equal_counts(group_, parts.numel() / group_.size());
    group_.all_to_all(parts, counts, received, counts).wait();
    return received;
  }

  comm::Communicator& group_;
  std::int64_t rows_, share_length_, length_;
  TokenPlaces places_;
  std::int64_t num_heads_, heads_per_rank_;
};

ops::Variable to_heads(ops::Tape& tape, const HeadExchange& exchange, const ops::Variable& tokens) {
  ops::Variable heads = tape.variable(exchange.to_heads(tokens.value));
  tape.record([exchange, slot = tokens.gradient, out = heads.gradient] {
    if (!out->empty()) slot->add_owned(exchange.to_tokens(out->take()));
  });
  return heads;
}

ops::Variable to_tokens(ops::Tape& tape, const HeadExchange& exchange, const ops::Variable& heads) {
  ops::Variable tokens = tape.variable(exchange.to_tokens(heads.value));
  tape.record([exchange, slot = heads.gradient, out = tokens.gradient] {
    if (!out->empty()) slot->add_owned(exchange.to_heads(out->take()));
  });
  return tokens;
}

class AllToAllAttention : public model::Attention {
 public:
  explicit AllToAllAttention(comm::Communicator& group) : group_(group) {}

  ops::Variable operator()(ops::Tape& tape, std::size_t, const model::Inputs& inputs, const ops::Variable& query_BTHC, const ops::Variable& key_BTKC,
                           const ops::Variable& value_BTKC, const ops::AttentionOptions& options) override {
    const std::int64_t heads = query_BTHC.value.size(2), rows = inputs.num_rows();
    const HeadExchange queries(group_, inputs, heads), keys(group_, inputs, key_BTKC.value.size(2));
    ops::AttentionOptions whole = options;
    whole.first_head += queries.first_head(group_.rank());
    whole.first_sink += queries.first_head(group_.rank());
    const ops::Variable attended =
        ops::attention(tape, to_heads(tape, queries, query_BTHC), to_heads(tape, keys, key_BTKC), to_heads(tape, keys, value_BTKC), whole);
    // The same gradient slots seen in other shapes: attention's output is [B·T, n·C], the decoder's [B·T', H·C].
    const ops::Variable by_heads{attended.value.view({rows, inputs.whole_length, heads / group_.size(), -1}), attended.gradient, nullptr};
    const ops::Variable tokens = to_tokens(tape, queries, by_heads);
    return {tokens.value.view({rows * inputs.length(), -1}), tokens.gradient, nullptr};
  }

 private:
  comm::Communicator& group_;
};

}  // namespace

std::unique_ptr<model::Attention> all_to_all_attention(comm::Communicator& group) { return std::make_unique<AllToAllAttention>(group); }

}  // namespace tessera::parallel
