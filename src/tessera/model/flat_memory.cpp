#include "tessera/model/flat_memory.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::model {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

at::Tensor map_zeroed(std::int64_t num_elements, std::size_t bytes, at::TensorOptions options) {
  // One huge page more than needed, so that the start can be moved to a huge page's boundary; what is never touched costs nothing.
  const std::size_t mapped = bytes + kHugePage;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    throw Failure({"", fmt::format("cannot allocate {} for weights: {}", human_bytes(static_cast<double>(bytes)), std::strerror(errno)), "",
                   "use a smaller model or a machine with more memory"});
  }
  const auto address = (reinterpret_cast<std::uintptr_t>(base) + kHugePage - 1) / kHugePage * kHugePage;
  auto* start = reinterpret_cast<void*>(address);  // NOLINT: rounded up within the mapping
  madvise(start, bytes, MADV_HUGEPAGE);            // only advice: refusal changes nothing
  return at::from_blob(start, {num_elements}, [base, mapped](void*) { munmap(base, mapped); }, options);
}

}  // namespace

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return at::kDouble;
    case DType::F32:
      return at::kFloat;
    case DType::BF16:
      return at::kBFloat16;
    case DType::F16:
      return at::kHalf;
    default:
      TESSERA_ASSERT(false, "parameters are floating-point");
  }
}

at::Tensor allocate_flat(std::int64_t num_elements, DType dtype) {
  const auto options = at::TensorOptions().dtype(scalar_type(dtype));
  const std::size_t bytes = static_cast<std::size_t>(num_elements) * size_of(dtype);
  return bytes < kHugePage ? at::zeros({num_elements}, options) : map_zeroed(num_elements, bytes, options);
}

}  // namespace tessera::model
