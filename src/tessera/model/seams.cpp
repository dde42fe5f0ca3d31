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

}  // namespace tessera::model
