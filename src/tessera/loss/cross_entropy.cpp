#include "tessera/loss/cross_entropy.h"

namespace tessera::loss {

LossSum causal_language_model(ops::Tape& tape, const model::Decoder& decoder, const model::Inputs& inputs, const at::Tensor& labels_BT,
                              double gradient_scale, std::uint64_t step) {
  const ops::Variable hidden = decoder.hidden(tape, inputs, step);
  const model::HeadView head = decoder.head();
  return ops::linear_cross_entropy(tape, hidden, *head.weight, head.options, labels_BT.reshape({-1}), gradient_scale);
}

}  // namespace tessera::loss
