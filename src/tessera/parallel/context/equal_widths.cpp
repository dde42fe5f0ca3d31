#include "tessera/parallel/context/equal_widths.h"

#include <ATen/ops/constant_pad_nd.h>

#include <utility>

#include "tessera/core/error.h"

namespace tessera::parallel {
namespace {

at::Tensor padded(const at::Tensor& values, std::int64_t width) { return at::constant_pad_nd(values, {0, width - values.size(-1)}); }

at::Tensor cut(const at::Tensor& values, std::int64_t width) { return values.narrow(-1, 0, width).contiguous(); }

class EqualWidths : public model::Attention {
 public:
  explicit EqualWidths(std::unique_ptr<model::Attention> attention) : attention_(std::move(attention)) {}

  ops::Variable operator()(ops::Tape& tape, std::size_t layer, const model::Inputs& inputs, const ops::Variable& query_BTHC,
                           const ops::Variable& key_BTKC, const ops::Variable& value_BTKC, const ops::AttentionOptions& options) override {
    const std::int64_t width = query_BTHC.value.size(3), value_width = value_BTKC.value.size(3), heads = query_BTHC.value.size(2);
    if (value_width == width) return (*attention_)(tape, layer, inputs, query_BTHC, key_BTKC, value_BTKC, options);
    TESSERA_ASSERT(value_width < width, "values are narrower than keys, if they differ");
    ops::Variable value = tape.variable(padded(value_BTKC.value, width));
    tape.record([value_width, slot = value_BTKC.gradient, out = value.gradient] {
      if (!out->empty() && slot != nullptr) slot->add_owned(cut(out->take(), value_width));
    });
    const ops::Variable wide = (*attention_)(tape, layer, inputs, query_BTHC, key_BTKC, value, options);
    const auto by_heads = [heads](const at::Tensor& tensor) { return tensor.unflatten(1, {heads, -1}); };
    ops::Variable output = tape.variable(cut(by_heads(wide.value), value_width).flatten(1));
    tape.record([width, by_heads, slot = wide.gradient, out = output.gradient] {
      if (!out->empty() && slot != nullptr) slot->add_owned(padded(by_heads(out->take()), width).flatten(1));
    });
    return output;
  }

 private:
  std::unique_ptr<model::Attention> attention_;
};

}  // namespace

std::unique_ptr<model::Attention> with_equal_widths(std::unique_ptr<model::Attention> attention) {
  return std::make_unique<EqualWidths>(std::move(attention));
}

}  // namespace tessera::parallel
