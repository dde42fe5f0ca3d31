#include "tessera/train/reshard_layout.h"

#include <memory>
#include <optional>
#include <set>

#include "tessera/checkpoint/manifest.h"
#include "tessera/core/error.h"
#include "tessera/mesh/mesh_sizes.h"
#include "tessera/model/causal_lm.h"
#include "tessera/model/config.h"
#include "tessera/model/piece_plan.h"
#include "tessera/parallel/data/policy.h"
#include "tessera/parallel/rank_table.h"
#include "tessera/parallel/tensor/share.h"
#include "tessera/train/examine.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

void refuse_other_overrides(std::span<const std::string> overrides) {
  ProblemList problems;
  for (const std::string& override : overrides)
    if (override.starts_with("--") && !override.starts_with("--distributed."))
      problems.add({"tessera checkpoint reshard", "unknown option " + override, "only the distributed section decides the layout",
                    "leave it out; --distributed.… overrides are read"});
  problems.throw_if_any();
}

/// Parameters without moments were not trained.
model::ParameterPredicate frozen_in(const checkpoint::Manifest& manifest) {
  const auto names = std::make_shared<std::set<std::string>>();
  for (const auto& [name, record] : manifest.optim) names->insert(name);
  return [names](const model::ParameterSpec& parameter) { return !names->contains(checkpoint::kFirstMoment + parameter.pieces.front().tensor); };
}

/// Nothing without a pipeline.
std::optional<pipeline::StagePlan> plan_stages_of(const config::Distributed& distributed, const model::ModelSpec& spec, const config::Locate& locate,
                                                  ProblemList& problems) {
  if (distributed.sizes.pp_size == 1) return std::nullopt;
  return pipeline::plan_stages(*distributed.pipeline, static_cast<int>(distributed.sizes.pp_size), model::parameter_table(spec), locate, problems);
}

}  // namespace

Json layout_json(const mesh::MeshSizes& sizes) {
  return {{"world_size", sizes.world_size()},
          {"pp", sizes.pp},
          {"dp_replicate", sizes.dp_replicate},
          {"dp_shard", sizes.dp_shard},
          {"cp", sizes.cp},
          {"tp", sizes.tp},
          {"ep", sizes.ep}};
}

checkpoint::ReshardLayout reshard_layout(const fs::path& checkpoint, std::span<const std::string> overrides, std::int64_t num_ranks,
                                         const Environment& environment) {
  const checkpoint::Manifest manifest = checkpoint::read_manifest(checkpoint);
  refuse_other_overrides(overrides);
  const config::LoadedRecipe loaded = config::load_recipe(checkpoint / "config.yaml", overrides, environment);
  const config::Distributed& distributed = loaded.recipe.distributed;
  ProblemList problems;
  config::validate_parallelism(distributed, num_ranks, config::locate_in(loaded.tree), problems);
  problems.throw_if_any();
  const mesh::MeshSizes sizes = mesh::mesh_sizes(distributed, num_ranks);
  const fs::path model = checkpoint / "model";
  const model::ModelSpec spec = model::model_spec_from_json(model::read_config_json(model), model.string());
  const parallel::TensorShare share{.size = sizes.tp,
                                    .sequence_parallel = distributed.sequence_parallel,
                                    .plan = parallel::plan_split(distributed, spec, config::locate_in(loaded.tree), problems)};
  const auto stages = plan_stages_of(distributed, spec, config::locate_in(loaded.tree), problems);
  problems.throw_if_any();
  const auto policy = parallel::data_parallel_policy(distributed, model::default_compute_dtype(spec), 1);
  const auto owned = [spec, share, policy, sizes, stages, frozen = frozen_in(manifest)](std::int64_t rank) {
    const mesh::MeshContext mesh(sizes, rank);
    return model::plan_owned_pieces(
        parallel::rank_table(spec, share, stages ? &*stages : nullptr, mesh),
        {.frozen = frozen, .placement = parallel::placement(policy, mesh), .expert_placement = parallel::expert_placement(policy, mesh)});
  };
  return {num_ranks, owned, layout_json(sizes)};
}

}  // namespace tessera::train
