#include "tessera/model/adjusted_source.h"

#include <utility>

#include "tessera/core/error.h"
#include "tessera/formats/convert.h"

namespace tessera::model {
namespace {

using formats::TensorSource;
using formats::TensorSpec;

std::vector<TensorSpec> adjusted_specs(const TensorSource& source, const std::vector<Adjustment>& adjustments) {
  std::vector<TensorSpec> specs = source.tensors();
  TESSERA_ASSERT(specs.size() == adjustments.size(), "one adjustment per tensor");
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (adjustments[i].added != 0.0) specs[i].dtype = DType::F32;
    if (!adjustments[i].transposed) continue;
    TESSERA_ASSERT(specs[i].shape.size() == 2, "only matrices are transposed");
    std::swap(specs[i].shape[0], specs[i].shape[1]);
  }
  return specs;
}

class AdjustedSource : public TensorSource {
 public:
  AdjustedSource(std::unique_ptr<TensorSource> source, std::vector<Adjustment> adjustments)
      : TensorSource(adjusted_specs(*source, adjustments)), source_(std::move(source)), adjustments_(std::move(adjustments)) {}
  std::string where() const override { return source_->where(); }

 private:
  void read_elements(std::size_t tensor, std::uint64_t first, std::uint64_t count, DType destination, std::span<std::byte> out) const override {
    const Adjustment& adjustment = adjustments_[tensor];
    if (!adjustment.transposed && adjustment.added == 0.0) return read_plain(tensor, first, count, destination, out);
    std::vector<float> values(count);
    if (adjustment.transposed) {
      read_transposed(tensor, first, values);
    } else {
      read_plain(tensor, first, count, DType::F32, std::as_writable_bytes(std::span(values)));
    }
    for (float& value : values) value += static_cast<float>(adjustment.added);
    formats::convert_elements(DType::F32, std::as_bytes(std::span(values)).data(), destination, out.data(), count);
  }

  void read_plain(std::size_t tensor, std::uint64_t first, std::uint64_t count, DType destination, std::span<std::byte> out) const {
    const TensorSpec& spec = source_->tensors()[tensor];
    if (spec.shape.empty()) return source_->read(spec.name, destination, out);
    const std::uint64_t row = formats::num_elements(std::span(spec.shape).subspan(1));
    source_->read_rows(spec.name, static_cast<std::int64_t>(first / row), static_cast<std::int64_t>(count / row), destination, out);
  }

  void read_transposed(std::size_t tensor, std::uint64_t first, std::span<float> values) const {
    const TensorSpec& stored = source_->tensors()[tensor];
    const auto rows = static_cast<std::uint64_t>(stored.shape[0]), columns = static_cast<std::uint64_t>(stored.shape[1]);
    std::vector<float> whole(rows * columns);
    source_->read(stored.name, DType::F32, std::as_writable_bytes(std::span(whole)));
    for (std::uint64_t i = 0; i < values.size(); ++i) values[i] = whole[(first + i) % rows * columns + (first + i) / rows];
  }

  std::unique_ptr<TensorSource> source_;
  std::vector<Adjustment> adjustments_;
};

}  // namespace

std::unique_ptr<TensorSource> adjust_tensors(std::unique_ptr<TensorSource> source, std::vector<Adjustment> adjustments) {
  return std::make_unique<AdjustedSource>(std::move(source), std::move(adjustments));
}

}  // namespace tessera::model
