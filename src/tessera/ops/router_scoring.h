#pragma once

namespace tessera::ops {

/// How a router scores experts.
enum class RouterScoring {
  SoftmaxThenTopK,  ///< scores are a softmax over all experts (mixtral, qwen)
  TopKThenSoftmax,  ///< scores are the logits; weights a softmax over the chosen ones (gpt_oss)
  Sigmoid,          ///< each expert's score by itself (DeepSeek-V3, arXiv 2412.19437)
};

}  // namespace tessera::ops
