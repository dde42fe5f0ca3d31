#include "tessera/cli/compute_dtype.h"

#include <algorithm>

#include "tessera/core/error.h"

namespace tessera::cli {
namespace {

/// "float32, bfloat16 or float64".
std::string choices(const std::vector<DType>& allowed, bool has_auto) {
  std::vector<std::string> names;
  if (has_auto) names.emplace_back("auto");
  for (const DType dtype : allowed) names.emplace_back(torch_name(dtype));
  std::string list = names[0];
  for (std::size_t i = 1; i < names.size(); ++i) list += (i + 1 == names.size() ? " or " : ", ") + names[i];
  return list;
}

}  // namespace

std::optional<DType> compute_dtype(const std::string& name, const std::vector<DType>& allowed, bool has_auto) {
  if (has_auto && name == "auto") return std::nullopt;
  const auto dtype = dtype_from_torch(name);
  if (!dtype || std::ranges::count(allowed, *dtype) == 0)
    throw UserError({"--dtype", "\"" + name + "\" is not a dtype to compute in", "", "use " + choices(allowed, has_auto)});
  return dtype;
}

}  // namespace tessera::cli
