#include "tessera/model/seams.h"

namespace tessera::model {
namespace {

class LocalAttention : public Attention {
 public:
  ops::Variable operator()(ops::Tape& tape, std::size_t, const ops::Variable& query_BTHC, const ops::Variable& key_BTKC,
                           const ops::Variable& value_BTKC, const ops::AttentionOptions& options) override {
    return ops::attention(tape, query_BTHC, key_BTKC, value_BTKC, options);
  }
};

}  // namespace

std::unique_ptr<Attention> local_attention() { return std::make_unique<LocalAttention>(); }

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
