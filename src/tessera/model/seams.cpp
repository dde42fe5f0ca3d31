#include "tessera/model/seams.h"

#include "tessera/ops/embedding.h"
#include "tessera/ops/linear.h"
#include "tessera/ops/routed_rows.h"

namespace tessera::model {
namespace {

class LocalAttention : public Attention {
 public:
  ops::Variable operator()(ops::Tape& tape, std::size_t, const Inputs&, const ops::Variable& query_BTHC, const ops::Variable& key_BTKC,
                           const ops::Variable& value_BTKC, const ops::AttentionOptions& options) override {
    return ops::attention(tape, query_BTHC, key_BTKC, value_BTKC, options);
  }
};

class LocalProjections : public Projections {
 public:
  TokenRange residual_tokens(std::int64_t num_tokens) const override { return {0, num_tokens}; }
  TokenRange own_tokens(std::int64_t num_tokens) const override { return {0, num_tokens}; }
  ops::Variable take_own(ops::Tape&, const ops::Variable& residual_RD, std::int64_t) override { return residual_RD; }
  ops::Variable join_own(ops::Tape&, const ops::Variable& own_WD, std::int64_t) override { return own_WD; }
  ops::Variable embedding(ops::Tape& tape, const at::Tensor& ids_N, ops::Parameter& table, double scale) override {
    return ops::embedding(tape, ids_N, table, scale);
  }
  ops::Variable column_linear(ops::Tape& tape, const ops::Variable& input_RI, std::int64_t, ops::Parameter& weight, ops::Parameter* bias) override {
    return ops::linear(tape, input_RI, weight, bias);
  }
  ops::Variable row_linear(ops::Tape& tape, const ops::Variable& input_NI, ops::Parameter& weight, ops::Parameter* bias) override {
    return ops::linear(tape, input_NI, weight, bias);
  }
  ops::Variable query_key_norm(ops::Tape& tape, const ops::Variable& query_key_value, ops::Parameter& query_weight, ops::Parameter& key_weight,
                               const ops::QueryKeyNormOptions& options) override {
    return ops::query_key_norm(tape, query_key_value, query_weight, key_weight, options);
  }
  ops::LossSum loss(ops::Tape& tape, const ops::Variable& hidden_RD, ops::Parameter& weight, const ops::LogitsOptions& options,
                    const at::Tensor& labels_N, double gradient_scale) override {
    return ops::linear_cross_entropy(tape, hidden_RD, weight, options, labels_N, gradient_scale);
  }
  at::Tensor logits(const at::Tensor& hidden_RD, std::int64_t, const ops::Parameter& weight, const ops::LogitsOptions& options) override {
    return ops::logits(hidden_RD, weight, options);
  }
};

class LocalDispatcher : public Dispatcher {
 public:
  ops::Variable operator()(ops::Tape& tape, const ops::Variable& tokens_ND, const Routing& routing, std::int64_t num_experts, const Experts& experts,
                           const std::function<void()>& meanwhile) override {
    if (meanwhile) meanwhile();
    const ops::RoutedRows routed = ops::route_rows(routing.experts_NK.cpu(), num_experts);
    const ops::Variable rows = experts(tape, ops::rows_to_places(tape, tokens_ND, routed), routed.rows_per_group);
    return ops::rows_from_places(tape, rows, &routing.weights_NK, routed);
  }
};

}  // namespace

std::unique_ptr<Attention> local_attention() { return std::make_unique<LocalAttention>(); }

std::unique_ptr<Projections> local_projections() { return std::make_unique<LocalProjections>(); }

std::unique_ptr<Dispatcher> local_dispatcher() { return std::make_unique<LocalDispatcher>(); }

UnitScope::UnitScope(UnitHooks* hooks, ops::Tape& tape, std::int64_t unit) : hooks_(hooks), tape_(&tape), unit_(unit) {
  if (hooks_ == nullptr) return;
  hooks_->before_forward(unit_, tape_->recording());
  tape_->record([hooks, unit] { hooks->after_backward(unit); });
}

void UnitScope::leave() {
  if (hooks_ == nullptr) return;
  tape_->record([hooks = hooks_, unit = unit_] { hooks->before_backward(unit); });
  hooks_->after_forward(unit_, tape_->recording());
}

}  // namespace tessera::model
