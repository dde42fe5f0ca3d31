#include "tessera/model/activation_memory.h"

#include <algorithm>

#include "tessera/ops/bfloat16_gemm.h"
#include "tessera/ops/linear_cross_entropy.h"

namespace tessera::model {
namespace {

/// Elements of a token's activations.
struct Widths {
  std::int64_t hidden, query, query_key_value, feed_forward, gate_up;
  std::int64_t routed;  ///< outputs of a token's experts, before they are added up
};

Widths widths_of(const ModelSpec& spec) {
  const std::int64_t query = spec.num_attention_heads * spec.head_dim;
  const bool gated = spec.feed_forward == FeedForwardKind::Gated;
  // Where layers differ, the wider kind stands for all.
  std::int64_t width = spec.intermediate_size;
  if (spec.experts)
    width = std::max(width, spec.experts->experts_per_token * spec.experts->intermediate_size + spec.experts->shared_intermediate_size);
  return {.hidden = spec.hidden_size,
          .query = query,
          .query_key_value = query + spec.num_key_value_heads * (spec.head_dim + spec.value_dim()),
          .feed_forward = width,
          .gate_up = (gated ? 2 : 1) * width,
          .routed = spec.experts ? spec.experts->experts_per_token * spec.hidden_size : 0};
}

/// A step's phases in bytes. Names of tensors follow Decoder; "product" is a matrix product.
class Phases {
 public:
  Phases(const ModelSpec& spec, const MemoryRequest& request)
      : spec_(spec),
        request_(request),
        w_(widths_of(spec)),
        tokens_(request.num_rows * request.length),
        element_(static_cast<std::int64_t>(size_of(request.compute_dtype))) {}

  ActivationBytes training() const {
    const bool full = request_.activation_checkpointing == ActivationCheckpointing::Full;
    const std::int64_t block_input = tensor(w_.hidden);
    const std::int64_t block = kept_by_block();
    const std::int64_t kept = spec_.num_layers() * (full ? block_input : block) + shared_by_layers();
    const std::int64_t again = full ? block - block_input : 0;  // one block's own tensors, while it runs a second time
    return {.kept = kept, .loss = kept + loss(), .blocks = kept + again + std::max({feed_forward_backward(), attention_backward(), forward_end()})};
  }

  /// The tensors of one block, as none is kept.
  ActivationBytes inference() const { return {.kept = 0, .loss = 0, .blocks = kept_by_block() + tensor(w_.hidden) + shared_by_layers()}; }

 private:
  std::int64_t tensor(std::int64_t width) const { return tokens_ * width * element_; }
  std::int64_t scalars(std::int64_t width) const { return tokens_ * width * 4; }
  bool selective() const { return request_.activation_checkpointing == ActivationCheckpointing::Selective; }
  bool widens() const { return request_.compute_dtype == DType::BF16 && !request_.bfloat16_gemm; }

  /// Temporaries of y[N, out] = x[N, in] · w: fp32 copies where bf16 is widened.
  std::int64_t product(std::int64_t rows, std::int64_t in, std::int64_t out) const {
    return widens() ? 4 * (in * out + std::min(rows, ops::kWidenedRows) * (in + out)) : 0;
  }
  /// Temporaries of a weight's gradient from x[N, in] and dy[N, out], which is summed in fp32.
  std::int64_t weight_gradient(std::int64_t rows, std::int64_t in, std::int64_t out) const {
    if (widens()) return 4 * rows * (in + out);
    return request_.compute_dtype == DType::BF16 ? in * out * element_ : 0;
  }

  /// What forward leaves behind in one block. Outputs of norms and activations are made again.
  std::int64_t kept_by_block() const {
    const bool head_norms = spec_.query_key_norm != QueryKeyNorm::None;
    const std::int64_t second_projection = head_norms && !selective() ? tensor(w_.query_key_value) + scalars(head_norm_scales()) : 0;
    const std::int64_t attended = selective() ? 0 : tensor(w_.query) + scalars(spec_.num_attention_heads);
    const std::int64_t branches = spec_.norm_placement == NormPlacement::Pre ? 0 : tensor(2 * w_.hidden);
    const std::int64_t norms = (spec_.norm_placement == NormPlacement::Sandwich ? 4 : 2) * (spec_.norm == NormKind::Layer ? 2 : 1);
    return tensor(2 * w_.hidden + w_.query_key_value + w_.gate_up + w_.routed) + second_projection + attended + branches + scalars(norms);
  }
  std::int64_t head_norm_scales() const {
    return spec_.query_key_norm == QueryKeyNorm::Head ? spec_.num_attention_heads + spec_.num_key_value_heads : 2;
  }

  /// Token ids, positions, labels; rotary angles.
  std::int64_t shared_by_layers() const {
    std::int64_t angles = 0;
    for (const RopeSpec& rope : spec_.ropes) angles += scalars(rope.rotary_dim);
    return 3 * tokens_ * 8 + angles;
  }

  /// The last block's output, the final norm's, its gradient, and a chunk of logits on its way to all three products.
  std::int64_t loss() const {
    const std::int64_t rows = ops::loss_chunk_rows(tokens_, spec_.vocab_size);
    const std::int64_t logits = rows * spec_.vocab_size * element_;
    const std::int64_t forward = widens() ? logits + product(rows, w_.hidden, spec_.vocab_size) : 0;  // the product's output before it is copied
    const std::int64_t input_gradient = (widens() ? rows * w_.hidden * element_ : 0) + product(rows, spec_.vocab_size, w_.hidden);
    return tensor(3 * w_.hidden) + logits + std::max({forward, input_gradient, weight_gradient(rows, w_.hidden, spec_.vocab_size)});
  }

  /// Gradients that arrive at a branch: the residual stream's, and a second one where the branch's differs from it.
  std::int64_t incoming() const {
    const bool own = spec_.norm_placement != NormPlacement::Pre || spec_.residual_dropout > 0.0 || spec_.residual_multiplier != 1.0;
    return tensor((own ? 2 : 1) * w_.hidden);
  }

  /// Beside everything that is kept: down, activation, then (gate_up's value gone) gate_up.
  std::int64_t feed_forward_backward() const {
    const std::int64_t down = tensor(w_.feed_forward) + std::max(weight_gradient(tokens_, w_.feed_forward, w_.hidden),  //
                                                                 product(tokens_, w_.hidden, w_.feed_forward));
    const std::int64_t activation = tensor(w_.feed_forward + w_.gate_up);
    const std::int64_t gate_up = tensor(w_.hidden) + std::max(weight_gradient(tokens_, w_.hidden, w_.gate_up),  //
                                                              product(tokens_, w_.gate_up, w_.hidden));
    return incoming() + std::max({down, activation, gate_up});
  }

  /// After the feed-forward has left: the gradients of attention's output and of queries, keys and values, and what runs again.
  std::int64_t attention_backward() const {
    const std::int64_t freed = tensor(w_.gate_up + w_.hidden);
    const bool norms_again = selective() && spec_.query_key_norm != QueryKeyNorm::None;
    const std::int64_t again = selective() ? tensor(w_.query + (norms_again ? w_.query_key_value : 0)) + scalars(spec_.num_attention_heads) : 0;
    const std::int64_t core = tensor(w_.query + w_.query_key_value);
    const std::int64_t projection =
        tensor(w_.query_key_value + w_.hidden) - tensor(w_.query) +
        std::max(weight_gradient(tokens_, w_.hidden, w_.query_key_value), product(tokens_, w_.query_key_value, w_.hidden));
    return incoming() - freed + std::max(again + core, projection);
  }

  /// The last block's feed-forward: its norm's output, the activation, the output.
  std::int64_t forward_end() const {
    const std::int64_t down = tensor(w_.feed_forward + w_.hidden) + product(tokens_, w_.feed_forward, w_.hidden);
    return tensor(w_.hidden) + std::max(down, product(tokens_, w_.hidden, w_.gate_up));
  }

  const ModelSpec& spec_;
  const MemoryRequest& request_;
  Widths w_;
  std::int64_t tokens_, element_;
};

}  // namespace

ActivationBytes activation_bytes(const ModelSpec& spec, const MemoryRequest& request) {
  const Phases phases(spec, request);
  return request.training ? phases.training() : phases.inference();
}

}  // namespace tessera::model
