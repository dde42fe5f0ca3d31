#include "tessera/loss/cross_entropy.h"

namespace tessera::loss {

LossSum causal_language_model(ops::Tape& tape, const model::Decoder& decoder, const model::Inputs& inputs, const at::Tensor& labels_BT,
                              double gradient_scale, std::uint64_t step) {
  model::Decoder::Hidden hidden = decoder.hidden(tape, inputs, step);
  const LossSum loss = decoder.loss(tape, hidden.states, labels_BT.reshape({-1}), gradient_scale);
  hidden.head_unit.leave();
  return loss;
}

}  // namespace tessera::loss
