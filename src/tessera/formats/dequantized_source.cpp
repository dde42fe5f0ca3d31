#include "tessera/formats/dequantized_source.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/formats/convert.h"

namespace tessera::formats {
namespace {

constexpr std::int64_t kScaleBlock = 128;  // of FP8, along both dims
constexpr std::int64_t kGroup = 32;        // MXFP4 values with one scale
constexpr std::int64_t kGroupBytes = kGroup / 2;
constexpr const char* kFix = "download the weights again, or take a checkpoint that is not quantised";
constexpr std::array<float, 8> kFourBitValues = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};

enum class Kind : std::uint8_t { Plain, BlockScaled, Microscaled };

/// Where a shown tensor comes from.
struct Origin {
  Kind kind = Kind::Plain;
  std::string values, scales;
};

std::int64_t blocks_of(std::int64_t size) { return (size + kScaleBlock - 1) / kScaleBlock; }

/// One sign bit, four of exponent with bias 7, three of mantissa; no infinities.
float from_e4m3(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 0xF;
  const int mantissa = bits & 0x7;
  if (exponent == 0xF && mantissa == 0x7) return std::nanf("");
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9) : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

std::array<float, 256> e4m3_values() {
  std::array<float, 256> values{};
  for (std::size_t bits = 0; bits < values.size(); ++bits) values[bits] = from_e4m3(static_cast<std::uint8_t>(bits));
  return values;
}

float from_e2m1(unsigned bits) { return (bits & 8U) != 0 ? -kFourBitValues[bits & 7U] : kFourBitValues[bits & 7U]; }

class Finder {
 public:
  explicit Finder(const TensorSource& source) : source_(source) {}

  void run() {
    for (const TensorSpec& tensor : source_.tensors()) {
      if (tensor.name.ends_with("_scales") && source_.find(without(tensor.name, "_scales") + "_blocks") != nullptr) continue;
      if (tensor.name.ends_with(".weight_scale_inv")) continue;
      if (tensor.name.ends_with("_blocks") && tensor.dtype == DType::U8) {
        add_microscaled(tensor);
      } else if (tensor.dtype == DType::F8_E4M3 && tensor.name.ends_with(".weight")) {
        add_block_scaled(tensor);
      } else {
        add({Kind::Plain, tensor.name, ""}, tensor);
      }
    }
    problems_.throw_if_any();
  }
  bool quantised() const { return quantised_; }
  std::vector<TensorSpec> specs;
  std::vector<Origin> origins;

 private:
  static std::string without(const std::string& name, std::string_view end) { return name.substr(0, name.size() - end.size()); }

  void add(Origin origin, TensorSpec spec) {
    quantised_ = quantised_ || origin.kind != Kind::Plain;
    origins.push_back(std::move(origin));
    specs.push_back(std::move(spec));
  }

  void add_block_scaled(const TensorSpec& tensor) {
    const std::string scales = tensor.name + "_scale_inv";
    if (tensor.shape.size() == 2 && has(tensor, scales, {blocks_of(tensor.shape[0]), blocks_of(tensor.shape[1])}))
      add({Kind::BlockScaled, tensor.name, scales}, {tensor.name, DType::F32, tensor.shape});
  }

  void add_microscaled(const TensorSpec& tensor) {
    const std::string name = without(tensor.name, "_blocks");
    const std::vector<std::int64_t>& shape = tensor.shape;
    if (shape.size() != 4 || shape[3] != kGroupBytes) {
      problems_.add({source_.where(), fmt::format("{} is {}", tensor.name, shape_to_string(shape)), "blocks are [experts, out, in / 32, 16]", kFix});
    } else if (has(tensor, name + "_scales", {shape[0], shape[1], shape[2]})) {
      add({Kind::Microscaled, tensor.name, name + "_scales"}, {name, DType::F32, {shape[0], shape[2] * kGroup, shape[1]}});
    }
  }

  bool has(const TensorSpec& tensor, const std::string& scales, const std::vector<std::int64_t>& shape) {
    const TensorSpec* found = source_.find(scales);
    if (found != nullptr && found->shape == shape) return true;
    const std::string what = found == nullptr ? "is missing" : "is " + shape_to_string(found->shape);
    problems_.add({source_.where(), fmt::format("{} {}", scales, what),
                   fmt::format("{} {} is quantised with scales {}", tensor.name, shape_to_string(tensor.shape), shape_to_string(shape)), kFix});
    return false;
  }

  const TensorSource& source_;
  ProblemList problems_;
  bool quantised_ = false;
};

class DequantizedSource : public TensorSource {
 public:
  DequantizedSource(std::unique_ptr<TensorSource> source, std::vector<TensorSpec> specs, std::vector<Origin> origins)
      : TensorSource(std::move(specs)), source_(std::move(source)), origins_(std::move(origins)) {}
  std::string where() const override { return source_->where(); }

 private:
  void read_elements(std::size_t tensor, std::uint64_t first, std::uint64_t count, DType destination, std::span<std::byte> out) const override {
    const TensorSpec& spec = tensors()[tensor];
    const Origin& origin = origins_[tensor];
    if (spec.shape.empty()) return source_->read(origin.values, destination, out);
    const std::uint64_t entry = num_elements(std::span(spec.shape).subspan(1));
    const auto begin = static_cast<std::int64_t>(first / entry), entries = static_cast<std::int64_t>(count / entry);
    if (origin.kind == Kind::Plain) return source_->read_rows(origin.values, begin, entries, destination, out);
    std::vector<float> values(count);
    origin.kind == Kind::BlockScaled ? read_block_scaled(origin, spec, begin, entries, values)
                                     : read_microscaled(origin, spec, begin, entries, values);
    convert_elements(DType::F32, std::as_bytes(std::span(values)).data(), destination, out.data(), count);
  }

  void read_block_scaled(const Origin& origin, const TensorSpec& spec, std::int64_t first, std::int64_t rows, std::span<float> out) const {
    static const std::array<float, 256> kValues = e4m3_values();
    const std::int64_t columns = spec.shape[1], blocks = blocks_of(columns), first_block = first / kScaleBlock;
    std::vector<std::uint8_t> bytes(out.size());
    source_->read_rows(origin.values, first, rows, DType::F8_E4M3, std::as_writable_bytes(std::span(bytes)));
    std::vector<float> scales(static_cast<std::size_t>(((first + rows - 1) / kScaleBlock - first_block + 1) * blocks));
    source_->read_rows(origin.scales, first_block, std::ssize(scales) / blocks, DType::F32, std::as_writable_bytes(std::span(scales)));
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* const scale = scales.data() + ((first + row) / kScaleBlock - first_block) * blocks;
      for (std::int64_t column = 0; column < columns; ++column) {
        const auto at = static_cast<std::size_t>(row * columns + column);
        out[at] = kValues[bytes[at]] * scale[column / kScaleBlock];
      }
    }
  }

  void read_microscaled(const Origin& origin, const TensorSpec& spec, std::int64_t first, std::int64_t experts, std::span<float> out) const {
    const std::int64_t inputs = spec.shape[1], outputs = spec.shape[2], groups = inputs / kGroup;
    std::vector<std::uint8_t> blocks(static_cast<std::size_t>(experts * outputs * groups * kGroupBytes));
    std::vector<std::uint8_t> scales(static_cast<std::size_t>(experts * outputs * groups));
    source_->read_rows(origin.values, first, experts, DType::U8, std::as_writable_bytes(std::span(blocks)));
    source_->read_rows(origin.scales, first, experts, DType::U8, std::as_writable_bytes(std::span(scales)));
    for (std::int64_t group = 0; group < std::ssize(scales); ++group) {
      const std::int64_t expert = group / (outputs * groups), output = group / groups % outputs, input = group % groups * kGroup;
      const float scale = std::ldexp(1.0F, scales[static_cast<std::size_t>(group)] - 127);
      for (std::int64_t i = 0; i < kGroup; ++i) {
        const unsigned byte = blocks[static_cast<std::size_t>(group * kGroupBytes + i / 2)];
        const float value = from_e2m1(i % 2 == 0 ? byte & 0xFU : byte >> 4);
        out[static_cast<std::size_t>((expert * inputs + input + i) * outputs + output)] = value * scale;
      }
    }
  }

  std::unique_ptr<TensorSource> source_;
  std::vector<Origin> origins_;
};

}  // namespace

std::unique_ptr<TensorSource> dequantize_tensors(std::unique_ptr<TensorSource> source) {
  Finder finder(*source);
  finder.run();
  if (!finder.quantised()) return source;
  return std::make_unique<DequantizedSource>(std::move(source), std::move(finder.specs), std::move(finder.origins));
}

}  // namespace tessera::formats
