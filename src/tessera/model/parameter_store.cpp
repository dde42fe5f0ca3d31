#include "tessera/model/parameter_store.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/model/flat_memory.h"

namespace tessera::model {
namespace {

/// Starts are 64-byte aligned in every dtype down to two bytes.
constexpr std::int64_t kAlignment = 32;

std::int64_t align_up(std::int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

DType master_dtype(DType compute) { return compute == DType::F64 ? DType::F64 : DType::F32; }

/// Which parameters share a buffer: those of one unit that are trained, and those that are not.
std::vector<FlatBuffer> plan_buffers(const ParameterTable& table, const ParameterStore::Options& options) {
  std::vector<FlatBuffer> buffers;
  for (std::size_t index = 0; index < table.parameters.size(); ++index) {
    const ParameterSpec& parameter = table.parameters[index];
    const bool trainable = options.trainable && !(options.frozen && options.frozen(parameter));
    const bool widened = options.kept_in_bfloat16.contains(parameter.name);
    auto buffer = std::ranges::find_if(
        buffers, [&](const FlatBuffer& other) { return other.unit == parameter.unit && other.trainable == trainable && other.widened == widened; });
    if (buffer == buffers.end()) {
      buffers.push_back(
          {.unit = parameter.unit, .trainable = trainable, .widened = widened, .master = {}, .compute = {}, .gradient = {}, .ranges = {}});
      buffer = buffers.end() - 1;
    }
    buffer->ranges.push_back({index, buffer->num_elements(), parameter.num_elements()});
  }
  return buffers;
}

void allocate(FlatBuffer& buffer, DType compute_dtype) {
  const DType compute = buffer.widened ? DType::BF16 : compute_dtype;
  const std::int64_t size = buffer.num_elements();
  const DType master = master_dtype(compute);
  if (buffer.trainable || compute == master) buffer.master = allocate_flat(size, master);
  buffer.compute = compute == master ? buffer.master : allocate_flat(size, compute);
  if (buffer.trainable) buffer.gradient = allocate_flat(size, master);
}

at::Tensor shaped_view(const at::Tensor& flat, const FlatBuffer::Range& range, const std::vector<std::int64_t>& shape) {
  return flat.narrow(0, range.begin, range.size).view(shape);
}

}  // namespace

std::int64_t FlatBuffer::num_elements() const { return ranges.empty() ? 0 : align_up(ranges.back().begin + ranges.back().size); }

ParameterStore::ParameterStore(ParameterTable table, Options options) : table_(std::move(table)), options_(std::move(options)) {
  TESSERA_ASSERT(options_.kept_in_bfloat16.empty() || (!options_.trainable && options_.compute_dtype == DType::F32),
                 "only fp32 weights that are not trained may be kept in bf16");
  buffers_ = plan_buffers(table_, options_);
  parameters_.resize(table_.parameters.size());
  places_.resize(table_.parameters.size());
  for (std::size_t number = 0; number < buffers_.size(); ++number) {
    FlatBuffer& buffer = buffers_[number];
    allocate(buffer, options_.compute_dtype);
    for (std::size_t place = 0; place < buffer.ranges.size(); ++place) {
      const FlatBuffer::Range& range = buffer.ranges[place];
      const ParameterSpec& spec = table_.parameters[range.parameter];
      auto parameter = std::make_unique<ops::Parameter>();
      parameter->name = spec.name;
      parameter->weight = shaped_view(buffer.compute, range, spec.shape);
      parameter->widened = buffer.widened;
      if (buffer.trainable) parameter->gradient = shaped_view(buffer.gradient, range, spec.shape);
      index_by_name_.emplace(spec.name, range.parameter);
      parameters_[range.parameter] = std::move(parameter);
      places_[range.parameter] = {number, place};
    }
  }
}

ops::Parameter& ParameterStore::parameter(const std::string& name) { return parameter(index_of(name)); }

bool ParameterStore::contains(const std::string& name) const { return index_by_name_.contains(name); }

std::size_t ParameterStore::index_of(const std::string& name) const {
  const auto found = index_by_name_.find(name);
  TESSERA_ASSERT(found != index_by_name_.end(), "no parameter of this name in the store");
  return found->second;
}

at::Tensor ParameterStore::master(std::size_t index) const {
  const auto [number, place] = places_[index];
  const FlatBuffer& buffer = buffers_[number];
  return shaped_view(buffer.master.defined() ? buffer.master : buffer.compute, buffer.ranges[place], table_.parameters[index].shape);
}

void ParameterStore::start_gradients() {
  for (auto& parameter : parameters_) parameter->gradient_written = false;
}

void ParameterStore::finish_gradients() {
  for (auto& parameter : parameters_) {
    if (!parameter->trainable() || parameter->gradient_written) continue;
    parameter->gradient.zero_();
    parameter->gradient_written = true;
  }
}

void ParameterStore::refresh_compute() {
  for (FlatBuffer& buffer : buffers_) {
    if (buffer.master.defined() && !buffer.master.is_same(buffer.compute)) buffer.compute.copy_(buffer.master);
  }
}

at::Tensor checkpoint_view(const at::Tensor& tensor, const Piece& piece) {
  const at::Tensor rows = tensor.narrow(0, piece.row, piece.num_rows());
  return piece.transposed ? rows.t() : rows;
}

}  // namespace tessera::model
