#include "tessera/generate/cached_model.h"

#include "tessera/core/error.h"
#include "tessera/model/config.h"
#include "tessera/model/flat_memory.h"

namespace tessera::generate {

parallel::CausalLM load_over_ranks(const std::filesystem::path& directory, const parallel::DistributedSetup& setup, model::CausalLMOptions options) {
  // A pipeline's schedule has a rule for how many microbatches it needs; passes that only go forward may have any number.
  const std::int64_t num_microbatches = 4 * setup.mesh->size(mesh::Axis::PipelineParallel);
  return parallel::CausalLM::from_pretrained(directory, model::read_model_spec(directory), setup, std::move(options), num_microbatches);
}

CachedModel CachedModel::from_pretrained(const std::filesystem::path& directory, const parallel::DistributedSetup& setup, std::optional<DType> dtype,
                                         std::int64_t capacity) {
  if (setup.mesh->size(mesh::Axis::Context) > 1)
    throw UserError({"", "distributed.cp_size: a text that grows is not cut", "each new token would go to another rank", "use tp_size or pp_size"});
  const DType compute = dtype.value_or(model::default_compute_dtype(model::read_model_spec(directory)));
  CachedModel result;
  result.capacity = capacity;
  const auto attention = [&](const model::ModelSpec& share) {
    auto cache = std::make_unique<KeyValueCache>(share, capacity, model::scalar_type(compute));
    result.cache = cache.get();
    return cache;
  };
  result.model = load_over_ranks(directory, setup, {.dtype = compute, .attention = attention});
  return result;
}

}  // namespace tessera::generate
