#include "tessera/cli/dtype_option.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::cli {
namespace {

/// "float32, bfloat16 or float64".
std::string choices(const std::vector<DType>& allowed, bool has_auto) {
  std::vector<std::string> names;
  if (has_auto) names.emplace_back("auto");
  for (const DType dtype : allowed) names.emplace_back(torch_name(dtype));
  return alternatives(names);
}

std::optional<DType> choose(const std::string& name, const std::vector<DType>& allowed, bool has_auto, const std::string& purpose) {
  if (has_auto && name == "auto") return std::nullopt;
  const auto dtype = dtype_from_torch(name);
  if (!dtype || std::ranges::count(allowed, *dtype) == 0)
    throw UserError({"--dtype", "\"" + name + "\" is not a dtype to " + purpose, "", "use " + choices(allowed, has_auto)});
  return dtype;
}

}  // namespace

std::optional<DType> compute_dtype(const std::string& name, const std::vector<DType>& allowed, bool has_auto) {
  return choose(name, allowed, has_auto, "compute in");
}

std::optional<DType> storage_dtype(const std::string& name) { return choose(name, {DType::F32, DType::BF16, DType::F16}, true, "store weights in"); }

}  // namespace tessera::cli
