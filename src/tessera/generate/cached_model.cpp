#include "tessera/generate/cached_model.h"

#include "tessera/core/error.h"
#include "tessera/model/config.h"
#include "tessera/model/flat_memory.h"

namespace tessera::generate {

CachedModel CachedModel::from_pretrained(const std::filesystem::path& directory, const parallel::DistributedSetup& setup, std::optional<DType> dtype,
                                         std::int64_t capacity) {
  if (setup.mesh->size(mesh::Axis::Context) > 1)
    throw UserError({"", "distributed.cp_size: a text that grows is not cut", "each new token would go to another rank", "use tp_size or pp_size"});
  const model::ModelSpec spec = model::read_model_spec(directory);
  const DType compute = dtype.value_or(model::default_compute_dtype(spec));
  CachedModel result;
  const auto attention = [&](const model::ModelSpec& share) {
    auto cache = std::make_unique<KeyValueCache>(share, capacity, model::scalar_type(compute));
    result.cache = cache.get();
    return cache;
  };
  // A schedule needs a microbatch for each stage; here they come one by one.
  const std::int64_t num_microbatches = 4 * setup.mesh->size(mesh::Axis::PipelineParallel);
  result.model = parallel::CausalLM::from_pretrained(directory, spec, setup, {.dtype = compute, .attention = attention}, num_microbatches);
  return result;
}

}  // namespace tessera::generate
