#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/model/inputs.h"
#include "tessera/ops/attention.h"
#include "tessera/ops/linear_cross_entropy.h"
#include "tessera/ops/norm.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/tape.h"

namespace tessera::model {

/// The places where the decoder calls out, so that it needs no knowledge of ranks or caches.

/// Attention of one layer: given this rank's queries, keys and values (rotated, [B, T, heads, C]), the output [B·T, H·C].
/// Local: flash attention over the same tokens. Generation: over a key/value cache. Context parallelism: over the ranks of cp.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual ops::Variable operator()(ops::Tape& tape, std::size_t layer, const Inputs& inputs, const ops::Variable& query_BTHC,
                                   const ops::Variable& key_BTKC, const ops::Variable& value_BTKC, const ops::AttentionOptions& options) = 0;
};

/// Tokens [first, first + count) of the N of a microbatch.
struct TokenRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Everything that reads a weight which tensor parallelism may split. The residual stream between these calls is [R, D]: R of the N tokens, all of
/// them but under sequence parallelism. Inside a region (between a column- and a row-linear) activations are of all N tokens and this rank's heads
/// or columns.
/// Local: the operators themselves, R = N. Tensor parallelism: over the ranks of tp.
class Projections {
 public:
  virtual ~Projections() = default;
  /// The tokens of the residual stream that are here.
  virtual TokenRange residual_tokens(std::int64_t num_tokens) const = 0;
  /// Those of them, W, that this rank alone works on where no weight is split (experts): under sequence parallelism all that are here.
  virtual TokenRange own_tokens(std::int64_t num_tokens) const = 0;
  /// The residual stream [R, D] at these tokens [W, D], and back.
  virtual ops::Variable take_own(ops::Tape& tape, const ops::Variable& residual_RD, std::int64_t num_tokens) = 0;
  virtual ops::Variable join_own(ops::Tape& tape, const ops::Variable& own_WD, std::int64_t num_tokens) = 0;
  /// table[ids] · scale of all tokens; the residual stream [R, D].
  virtual ops::Variable embedding(ops::Tape& tape, const at::Tensor& ids_N, ops::Parameter& table, double scale) = 0;
  /// Enters a region: [R, I] to this rank's columns [N, O].
  virtual ops::Variable column_linear(ops::Tape& tape, const ops::Variable& input_RI, std::int64_t num_tokens, ops::Parameter& weight,
                                      ops::Parameter* bias) = 0;
  /// Leaves it: this rank's [N, I] to the sum over ranks [R, O], the bias added once.
  virtual ops::Variable row_linear(ops::Tape& tape, const ops::Variable& input_NI, ops::Parameter& weight, ops::Parameter* bias) = 0;
  /// ops::query_key_norm, whose vectors may lie over several ranks.
  virtual ops::Variable query_key_norm(ops::Tape& tape, const ops::Variable& query_key_value, ops::Parameter& query_weight,
                                       ops::Parameter& key_weight, const ops::QueryKeyNormOptions& options) = 0;
  /// ops::linear_cross_entropy of the residual stream against the labels of all tokens. Every rank returns the same sum.
  virtual ops::LossSum loss(ops::Tape& tape, const ops::Variable& hidden_RD, ops::Parameter& weight, const ops::LogitsOptions& options,
                            const at::Tensor& labels_N, double gradient_scale) = 0;
  /// ops::logits of all tokens, [N, V].
  virtual at::Tensor logits(const at::Tensor& hidden_RD, std::int64_t num_tokens, const ops::Parameter& weight,
                            const ops::LogitsOptions& options) = 0;
};

/// The experts of each of N tokens.
struct Routing {
  at::Tensor experts_NK;     ///< int64: numbers of experts in the whole layer, a token's all different; −1 where it was dropped
  ops::Variable weights_NK;  ///< what their outputs are multiplied by; fp32 (fp64 for reference runs)
};
/// What the experts that live here make of tokens sorted by expert: of rows_per_expert[e] rows for local expert e, [R, D] to [R, D].
using Experts = std::function<ops::Variable(ops::Tape& tape, const ops::Variable& rows_RD, const std::vector<std::int64_t>& rows_per_expert)>;

/// Takes tokens to their experts and brings the results back: sum over k of weights_NK[n, k] · expert experts_NK[n, k] of token n, [N, D] in the
/// tokens' dtype, added up in fp32 (fp64). A token that was dropped everywhere gives zero.
/// Local: every expert lives here. Expert parallelism: over the ranks of ep, each of which has its own tokens.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  /// `num_experts`: of the whole layer. `meanwhile` (may be empty) is called once, before `experts`: work that can be done while tokens travel.
  virtual ops::Variable operator()(ops::Tape& tape, const ops::Variable& tokens_ND, const Routing& routing, std::int64_t num_experts,
                                   const Experts& experts, const std::function<void()>& meanwhile) = 0;
};

/// Called around every unit (0: the embedding; 1 … L: blocks; L + 1: final norm and head, with the loss), so that a data-parallel engine can gather
/// weights before they are used, free them after, and reduce gradients when they are complete. In a forward pass the units come in ascending order;
/// where it is recorded, each unit's backward follows later, in the opposite order, and a block that runs again does so between its two calls.
/// With a tied head, unit L + 1 uses the embedding's weight too.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  /// The unit's weights are about to be read. `recorded`: a backward pass will follow.
  virtual void before_forward(std::int64_t unit, bool recorded) = 0;
  virtual void after_forward(std::int64_t unit, bool recorded) = 0;
  /// The unit's weights are about to be read again and its gradients written.
  virtual void before_backward(std::int64_t unit) = 0;
  /// This pass has written all its gradients (but for those on a WeightGradientQueue).
  virtual void after_backward(std::int64_t unit) = 0;
};

/// Calls the hooks around one unit of a forward pass, and records their calls around its backward. Null hooks: nothing.
class UnitScope {
 public:
  UnitScope(UnitHooks* hooks, ops::Tape& tape, std::int64_t unit);
  /// The unit's operators are done. Called once; not by the destructor, because an exception must not start communication.
  void leave();

 private:
  UnitHooks* hooks_;
  ops::Tape* tape_;
  std::int64_t unit_;
};

/// Attention over the tokens at hand.
std::unique_ptr<Attention> local_attention();
/// Whole weights.
std::unique_ptr<Projections> local_projections();
/// All experts.
std::unique_ptr<Dispatcher> local_dispatcher();

}  // namespace tessera::model
