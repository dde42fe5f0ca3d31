#include "tessera/checkpoint/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "tessera/checkpoint/consolidate.h"
#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/formats/convert.h"
#include "tessera/formats/tensor_source.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

constexpr std::uint64_t kComparedBytes = std::uint64_t{8} << 20;
constexpr const char* kStateFiles[] = {"loader.json", "scheduler.json", "rng.json", "losses.json"};

/// One side of the comparison.
struct Side {
  fs::path path;
  std::optional<Manifest> manifest;  ///< of a checkpoint of a run
  std::vector<std::unique_ptr<formats::TensorSource>> sources;
};

Side open_side(const fs::path& path, bool with_optimizer) {
  Side side{path, std::nullopt, {}};
  if (!is_checkpoint(path)) {
    side.sources.push_back(formats::open_huggingface_source(path));
    return side;
  }
  side.manifest = read_manifest(path);
  side.sources.push_back(open_records_source(path, side.manifest->model));
  if (with_optimizer) side.sources.push_back(open_records_source(path, side.manifest->optim));
  return side;
}

/// Rows [first, first + count) of dim 0, or a whole scalar.
void read_rows(const formats::TensorSource& source, const formats::TensorSpec& tensor, std::int64_t first, std::int64_t count, DType dtype,
               std::vector<std::byte>& out) {
  const std::uint64_t rows = tensor.shape.empty() ? 1 : static_cast<std::uint64_t>(tensor.shape[0]);
  out.resize(formats::num_elements(tensor.shape) / rows * static_cast<std::uint64_t>(count) * size_of(dtype));
  if (tensor.shape.empty())
    source.read(tensor.name, dtype, out);
  else
    source.read_rows(tensor.name, first, count, dtype, out);
}

/// Elements of `size` bytes that differ.
std::uint64_t count_different(const std::vector<std::byte>& a, const std::vector<std::byte>& b, std::size_t size) {
  std::uint64_t count = 0;
  for (std::size_t at = 0; at < a.size(); at += size) count += std::memcmp(a.data() + at, b.data() + at, size) != 0;
  return count;
}

/// Widens the largest difference and the largest value; a difference that is no number counts as infinite.
void measure(const std::vector<std::byte>& a, const std::vector<std::byte>& b, ValueDifference& difference) {
  for (std::size_t at = 0; at < a.size(); at += sizeof(float)) {
    float x = 0.0F;
    float y = 0.0F;
    std::memcpy(&x, a.data() + at, sizeof(float));
    std::memcpy(&y, b.data() + at, sizeof(float));
    difference.largest_value = std::max(difference.largest_value, std::abs(static_cast<double>(x)));
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double distance = std::abs(static_cast<double>(x) - static_cast<double>(y));
    difference.largest = std::max(difference.largest, std::isnan(distance) ? INFINITY : distance);
  }
}

/// The tensor has one shape and dtype on both sides.
ValueDifference compare_values(const formats::TensorSource& a, const formats::TensorSource& b, const formats::TensorSpec& tensor,
                               const Progress& progress) {
  ValueDifference difference{tensor.name, formats::num_elements(tensor.shape)};
  if (difference.num_elements == 0) return difference;
  const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
  const std::uint64_t row_bytes = formats::num_bytes(tensor) / static_cast<std::uint64_t>(rows);
  const auto at_once = static_cast<std::int64_t>(std::max<std::uint64_t>(1, kComparedBytes / row_bytes));
  const bool is_number = formats::is_convertible(tensor.dtype, DType::F32);
  std::vector<std::byte> x;
  std::vector<std::byte> y;
  for (std::int64_t row = 0; row < rows; row += at_once) {
    const std::int64_t count = std::min(at_once, rows - row);
    read_rows(a, tensor, row, count, tensor.dtype, x);
    read_rows(b, tensor, row, count, tensor.dtype, y);
    if (progress) progress(x.size());
    difference.num_different += count_different(x, y, size_of(tensor.dtype));
    if (!is_number) continue;
    read_rows(a, tensor, row, count, DType::F32, x);
    read_rows(b, tensor, row, count, DType::F32, y);
    measure(x, y, difference);
  }
  return difference;
}

std::string describe(const formats::TensorSpec& tensor) { return fmt::format("{} {}", to_string(tensor.dtype), tensor.shape); }

void compare_sources(const formats::TensorSource& a, const formats::TensorSource& b, Differences& differences, const Progress& progress) {
  for (const formats::TensorSpec& tensor : a.tensors()) {
    const formats::TensorSpec* other = b.find(tensor.name);
    if (other == nullptr) {
      differences.structure.push_back(fmt::format("{} is only in A", tensor.name));
    } else if (*other != tensor) {
      differences.structure.push_back(fmt::format("{} is {} in A, {} in B", tensor.name, describe(tensor), describe(*other)));
    } else {
      ++differences.num_tensors;
      ValueDifference values = compare_values(a, b, tensor, progress);
      if (values.num_different > 0) differences.values.push_back(std::move(values));
    }
  }
  for (const formats::TensorSpec& tensor : b.tensors())
    if (a.find(tensor.name) == nullptr) differences.structure.push_back(fmt::format("{} is only in B", tensor.name));
}

Json state_of(const Side& side, const char* name) { return side.manifest->files.contains(name) ? read_json_file(side.path / name) : Json(); }

void compare_states(const Side& a, const Side& b, Differences& differences) {
  const auto compare = [&](const std::string& name, const Json& x, const Json& y) {
    if (x != y) differences.state.push_back(fmt::format("{}: {} in A, {} in B", name, x.dump(), y.dump()));
  };
  const Manifest& x = *a.manifest;
  const Manifest& y = *b.manifest;
  compare("model", x.signature.description, y.signature.description);
  compare("epoch", x.epoch, y.epoch);
  compare("step", x.step, y.step);
  compare("optimizer_steps", x.optimizer_steps, y.optimizer_steps);
  compare("validation_metric", x.validation_metric ? Json(*x.validation_metric) : Json(), y.validation_metric ? Json(*y.validation_metric) : Json());
  for (const char* name : kStateFiles) compare(name, state_of(a, name), state_of(b, name));
}

}  // namespace

std::uint64_t bytes_to_compare(const fs::path& a, const fs::path& b) {
  std::uint64_t bytes = 0;
  for (const auto& source : open_side(a, is_checkpoint(b)).sources)
    for (const formats::TensorSpec& tensor : source->tensors()) bytes += formats::num_bytes(tensor);
  return bytes;
}

Differences compare(const fs::path& a, const fs::path& b, const Progress& progress) {
  const bool runs = is_checkpoint(a) && is_checkpoint(b);
  const Side x = open_side(a, runs);
  const Side y = open_side(b, runs);
  Differences differences;
  for (std::size_t i = 0; i < x.sources.size(); ++i) compare_sources(*x.sources[i], *y.sources[i], differences, progress);
  if (runs) compare_states(x, y, differences);
  std::ranges::sort(differences.values, {}, &ValueDifference::name);
  return differences;
}

}  // namespace tessera::checkpoint
