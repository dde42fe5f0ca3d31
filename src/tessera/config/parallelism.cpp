#include "tessera/config/parallelism.h"

#include <algorithm>

#include "tessera/core/text.h"

namespace tessera::config {

namespace {

std::int64_t product_without_dp(const ParallelismSizes& sizes) { return sizes.tp_size * sizes.pp_size * sizes.cp_size; }

/// "tp_size · pp_size · cp_size (2 · 1 · 4)".
std::string spelled_product(const ParallelismSizes& sizes) {
  return "tp_size · pp_size · cp_size (" + std::to_string(sizes.tp_size) + " · " + std::to_string(sizes.pp_size) + " · " +
         std::to_string(sizes.cp_size) + ")";
}

/// "1, 2, 4 or 8": the numbers up to `value` for which `fits` holds.
std::string choices(std::int64_t value, const std::function<bool(std::int64_t)>& fits) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= std::min(value, kMostRanksAlongAnAxis); ++i)
    if (fits(i)) found.push_back(i);
  std::string list;
  for (std::size_t i = 0; i < found.size(); ++i) list += (i == 0 ? "" : i + 1 == found.size() ? " or " : ", ") + std::to_string(found[i]);
  return list;
}

std::string divisors(std::int64_t value) {
  return choices(value, [value](std::int64_t i) { return value % i == 0; });
}

/// The rules of one `distributed` section; each check adds what it finds.
class Checker {
 public:
  Checker(const Distributed& distributed, std::int64_t world_size, const Locate& locate, ProblemList& problems)
      : distributed_(distributed),
        sizes_(distributed.sizes),
        world_size_(world_size),
        dp_size_(data_parallel_size(distributed.sizes, world_size)),
        locate_(locate),
        problems_(problems) {}

  void check() {
    check_world();
    check_given_dp_size();
    check_replicas();
    check_experts();
    if (distributed_.strategy == Strategy::Ddp) check_ddp();
    if (distributed_.strategy == Strategy::MegatronFsdp) check_megatron_fsdp();
    if (sizes_.pp_size > 1 && !distributed_.pipeline)
      add("pp_size", ": " + std::to_string(sizes_.pp_size) + " needs a pipeline section", "the schedule and the microbatch size are chosen there",
          "add pipeline: {} for the defaults");
    if (distributed_.offload_activations && distributed_.activation_checkpointing != ActivationCheckpointing::Full)
      add("offload_activations", ": true does not go with this activation_checkpointing",
          "only the inputs of blocks that run again are moved to host memory", "set activation_checkpointing: true");
    if (distributed_.enable_async_tensor_parallel && !distributed_.sequence_parallel)
      add("enable_async_tensor_parallel", ": true does not go with sequence_parallel: false",
          "chunks are overlapped between the gather and the scatter of sequence parallelism", "add sequence_parallel: true");
  }

 private:
  void add(std::string_view key, const std::string& what, std::string rule, std::string fix) {
    const std::string path = "distributed." + std::string(key);
    problems_.add({locate_ ? locate_(path) : "", path + what, std::move(rule), std::move(fix)});
  }

  void check_world() {
    if (dp_size_) return;
    const std::int64_t product = product_without_dp(sizes_);
    const std::string_view key = sizes_.tp_size > 1 ? "tp_size" : sizes_.pp_size > 1 ? "pp_size" : "cp_size";
    const std::int64_t lower = world_size_ / product * product;
    add(key, ": " + spelled_product(sizes_) + " does not divide the number of ranks, " + std::to_string(world_size_),
        "world_size = dp_size · tp_size · pp_size · cp_size",
        "start " + (lower > 0 ? std::to_string(lower) + " or " : "") + std::to_string(lower + product) +
            " ranks (--nproc-per-node), or choose other sizes");
  }

  void check_given_dp_size() {
    if (!dp_size_ || !sizes_.dp_size || *sizes_.dp_size == *dp_size_) return;
    const std::int64_t needed = *sizes_.dp_size * product_without_dp(sizes_);
    add("dp_size", ": " + std::to_string(*sizes_.dp_size) + " is not what " + plural(world_size_, "rank") + " leave, " + std::to_string(*dp_size_),
        "dp_size = world_size / (tp_size · pp_size · cp_size)",
        "use " + std::to_string(*dp_size_) + ", leave dp_size out, or start " + std::to_string(needed) + " ranks (--nproc-per-node)");
  }

  void check_replicas() {
    const std::int64_t replicas = sizes_.dp_replicate_size;
    if (replicas == 1) return;
    const std::string value = ": " + std::to_string(replicas);
    if (distributed_.strategy != Strategy::Fsdp2) {
      add("dp_replicate_size", value + " does not go with the strategy", "only fsdp2 replicates groups of shards", "use strategy fsdp2, or size 1");
    } else if (dp_size_ && *dp_size_ % replicas != 0) {
      add("dp_replicate_size", value + " does not divide dp_size (" + std::to_string(*dp_size_) + ")", "every replica has the same number of shards",
          *dp_size_ == 1 ? "leave it out, or start more ranks (--nproc-per-node)"
                         : "use " + choices(*dp_size_ - 1, [this](std::int64_t i) { return *dp_size_ % i == 0; }));
    } else if (dp_size_ && *dp_size_ == replicas) {
      add("dp_replicate_size", value + " leaves no shards: dp_size is " + std::to_string(*dp_size_), "fsdp2 shards inside each replica",
          "use a smaller dp_replicate_size, or strategy ddp, which only replicates");
    }
  }

  /// An expert group stays inside a replica.
  void check_experts() {
    if (!dp_size_ || sizes_.ep_size == 1 || distributed_.strategy != Strategy::Fsdp2) return;
    const bool replicated = sizes_.dp_replicate_size > 1;
    if (*dp_size_ % sizes_.dp_replicate_size != 0) return;
    const std::int64_t room = *dp_size_ / sizes_.dp_replicate_size * sizes_.cp_size;
    if (room % sizes_.ep_size == 0) return;
    add("ep_size",
        ": " + std::to_string(sizes_.ep_size) + " does not divide " + (replicated ? "dp_size / dp_replicate_size · cp_size" : "dp_size · cp_size") +
            " (" + std::to_string(room) + ")",
        "ranks that hold different experts are data- and context-parallel to each other, inside one replica", "use " + divisors(room));
  }

  void check_ddp() {
    for (const auto& [key, size] :
         {std::pair{"tp_size", sizes_.tp_size}, {"pp_size", sizes_.pp_size}, {"cp_size", sizes_.cp_size}, {"ep_size", sizes_.ep_size}}) {
      if (size > 1) refuse(key, std::to_string(size), "ddp replicates the whole model on every rank", "use strategy fsdp2");
    }
    if (distributed_.sequence_parallel) refuse("sequence_parallel", "true", "ddp replicates the whole model on every rank", "use strategy fsdp2");
  }

  void check_megatron_fsdp() {
    if (sizes_.pp_size > 1) refuse("pp_size", std::to_string(sizes_.pp_size), "megatron_fsdp has no pipeline", "use strategy fsdp2");
    if (sizes_.ep_size > 1) refuse("ep_size", std::to_string(sizes_.ep_size), "megatron_fsdp does not split experts", "use strategy fsdp2");
    if (distributed_.sequence_parallel) refuse("sequence_parallel", "true", "megatron_fsdp has no sequence parallelism", "use strategy fsdp2");
    if (distributed_.activation_checkpointing == ActivationCheckpointing::Selective)
      refuse("activation_checkpointing", "selective", "megatron_fsdp recomputes whole blocks or nothing", "use full");
  }

  void refuse(std::string_view key, const std::string& value, std::string rule, std::string fix) {
    add(key, ": " + value + " does not go with the strategy", std::move(rule), std::move(fix));
  }

  const Distributed& distributed_;
  const ParallelismSizes& sizes_;
  std::int64_t world_size_;
  std::optional<std::int64_t> dp_size_;
  const Locate& locate_;
  ProblemList& problems_;
};

}  // namespace

std::optional<std::int64_t> data_parallel_size(const ParallelismSizes& sizes, std::int64_t world_size) {
  const std::int64_t product = product_without_dp(sizes);
  if (world_size % product != 0) return std::nullopt;
  return world_size / product;
}

void validate_parallelism(const Distributed& distributed, std::int64_t world_size, const Locate& locate, ProblemList& problems) {
  Checker(distributed, world_size, locate, problems).check();
}

void validate_model_split(const Distributed& distributed, const ModelSizes& model, const Locate& locate, ProblemList& problems) {
  const std::int64_t tp = distributed.sizes.tp_size, cp = distributed.sizes.cp_size, tp_of_heads = model.heads_are_cut ? tp : 1;
  const std::int64_t heads = model.num_attention_heads, key_value_heads = model.num_key_value_heads;
  const auto shares = [](std::int64_t of, std::int64_t ranks) { return of % ranks == 0 || ranks % of == 0; };
  const auto fits = [&](std::int64_t ranks) { return heads % ranks == 0 && shares(key_value_heads, ranks) && model.intermediate_size % ranks == 0; };
  const auto add = [&](const std::string& key, const std::string& what, std::string rule, std::string fix) {
    problems.add({locate ? locate("distributed." + key) : "", "distributed." + key + ": " + what, std::move(rule), std::move(fix)});
  };
  const std::string fix = "use " + choices(heads, fits);
  if (heads % tp_of_heads != 0) {
    add("tp_size", std::to_string(tp) + " does not divide num_attention_heads (" + std::to_string(heads) + ")",
        "every tensor-parallel rank holds whole attention heads", fix);
  } else if (!shares(key_value_heads, tp_of_heads)) {
    add("tp_size",
        std::to_string(tp) + " does not divide num_key_value_heads (" + std::to_string(key_value_heads) + "), nor is it a multiple of them",
        "every tensor-parallel rank holds whole key/value heads, or shares one with an equal number of ranks", fix);
  } else if (distributed.cp_attention == CpAttention::AllToAll && cp > 1) {
    const std::int64_t own = heads / tp_of_heads, own_keys = std::max<std::int64_t>(1, key_value_heads / tp_of_heads);
    if (own % cp != 0 || !shares(own_keys, cp))
      add("cp_attention", "all_to_all does not go with cp_size " + std::to_string(cp),
          "its ranks exchange tokens for whole heads, of which a rank has " + std::to_string(own) + " for queries and " + std::to_string(own_keys) +
              " for keys and values",
          "use cp_attention: ring or allgather, or " + choices(own, [&](std::int64_t ranks) { return own % ranks == 0 && shares(own_keys, ranks); }) +
              " context-parallel ranks");
  }
  if (model.intermediate_size % tp != 0)
    add("tp_size", std::to_string(tp) + " does not divide intermediate_size (" + std::to_string(model.intermediate_size) + ")",
        "every tensor-parallel rank holds an equal part of the feed-forward", fix);
  const std::int64_t ep = distributed.sizes.ep_size, experts = model.num_experts;
  if (ep > 1 && experts == 0) {
    add("ep_size", std::to_string(ep) + " needs a model with experts", "ranks of ep hold different experts of each layer", "use ep_size 1");
  } else if (ep > 1 && experts % ep != 0) {
    add("ep_size", std::to_string(ep) + " does not divide the number of experts (" + std::to_string(experts) + ")",
        "every rank of ep holds equally many experts", "use " + divisors(experts));
  }
}

}  // namespace tessera::config
