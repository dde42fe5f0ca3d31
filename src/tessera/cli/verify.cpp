#include "tessera/train/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tessera/cli/cli.h"
#include "tessera/cli/distributed_arguments.h"
#include "tessera/cli/dtype_option.h"
#include "tessera/cli/rank_arguments.h"
#include "tessera/comm/initialize.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/model/config.h"

namespace tessera::cli {
namespace {

struct VerifyOptions {
  std::filesystem::path directory;
  std::string dtype = "float32";
  std::int64_t steps = 10;
  bool json = false;
  bool all = false;
  CLI::App* parser = nullptr;  ///< what it did not recognise are overrides of a recipe
};

train::VerifyOptions to_train(const VerifyOptions& options) {
  const config::LoadedRecipe loaded =
      recipe_of_overrides(options.parser->remaining(), {"step_scheduler.local_batch_size"}, "a golden fixes everything but how the work is split",
                          "use --distributed.… and --step_scheduler.local_batch_size");
  train::VerifyOptions result{.steps = options.steps};
  result.dtype = *compute_dtype(options.dtype, {DType::F32, DType::BF16, DType::F64});
  result.distributed = loaded.recipe.distributed;
  result.activation_checkpointing = loaded.recipe.distributed.activation_checkpointing;
  // The golden is one batch unless the override asks for microbatches.
  if (loaded.tree.find("step_scheduler") != nullptr) result.local_batch_size = loaded.recipe.step_scheduler.local_batch_size;
  return result;
}

void print_comparison(const train::Comparison& comparison) {
  fmt::print("{:<64} error {:9.2e}  allowed {:8.1e}  {}\n", comparison.name, comparison.error, comparison.tolerance,
             comparison.passed() ? "ok" : "FAILED");
}

/// The worst gradient and the worst traced step stand for their kind unless --all asks for every one; failures are always shown.
void print_table(const train::Verification& verification, bool all) {
  const auto worst = [&](const std::string& kind, const auto& belongs) {
    const train::Comparison* found = nullptr;
    int count = 0;
    for (const train::Comparison& comparison : verification.comparisons) {
      if (!belongs(comparison.name)) continue;
      ++count;
      if (all || !comparison.passed()) print_comparison(comparison);
      if (found == nullptr || !(comparison.error <= found->error)) found = &comparison;
    }
    if (found != nullptr && !all && found->passed())
      print_comparison({count == 1 ? found->name : fmt::format("largest of {} {} ({})", count, kind, found->name), found->error, found->tolerance});
  };
  worst("logits", [](const std::string& name) { return name == "logits"; });
  worst("loss", [](const std::string& name) { return name == "loss"; });
  worst("gradients", [](const std::string& name) { return name.starts_with("gradient of "); });
  worst("traced losses", [](const std::string& name) { return name.starts_with("step ") && name.ends_with(" loss"); });
  worst("traced norms", [](const std::string& name) { return name.starts_with("step ") && name.ends_with(" grad_norm"); });
}

int verify(const VerifyOptions& options) {
  const train::VerifyOptions request = to_train(options);
  const auto backend = comm::initialize_distributed();
  const train::Verification verification = train::verify_golden(options.directory, request, *backend);
  if (options.json) {
    OrderedJson comparisons = OrderedJson::array();
    for (const train::Comparison& c : verification.comparisons)
      comparisons.push_back({{"name", c.name}, {"error", c.error}, {"tolerance", c.tolerance}, {"passed", c.passed()}});
    print_json({{"passed", verification.passed()}, {"comparisons", comparisons}});
  } else {
    print_table(verification, options.all);
    fmt::print("{}: {}\n", options.directory.string(), verification.passed() ? "passed" : "FAILED");
    if (!verification.passed() && request.dtype != DType::F64 && model::read_model_spec(options.directory).experts)
      fmt::print(
          "Rounding may send a token to another expert, and all errors after that are large: --dtype float64 distinguishes this from a mistake.\n");
  }
  return verification.passed() ? 0 : 1;
}

}  // namespace

Command add_verify(CLI::App& program) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App* parser = program.add_subcommand("verify", "Compare logits, gradients and ten AdamW steps with a golden directory");
  parser->add_option("DIR", options->directory, "Directory with config.json, model.safetensors, golden.safetensors and golden.json")->required();
  const auto ranks = add_rank_arguments(*parser);
  parser->add_option("--dtype", options->dtype, "float32, bfloat16 or float64")->capture_default_str();
  parser->add_option("--steps", options->steps, "AdamW steps to follow")->capture_default_str()->check(at_least(0));
  options->parser = parser->allow_extras();
  parser->add_flag("--all", options->all, "Print every comparison");
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer(
      "Recipe overrides may follow: --distributed.KEY VALUE, and --step_scheduler.local_batch_size N for rows of a microbatch (default: all of a "
      "rank's).\nExits with 1 when a difference exceeds its tolerance.\n\nexample:\n"
      "  tessera verify tests/data/goldens/qwen3 --step_scheduler.local_batch_size 5\n"
      "  tessera verify tests/data/goldens/qwen3 --nproc-per-node 4 --distributed.dp_replicate_size 2");
  return {parser, [options] { return verify(*options); }, ranks};
}

}  // namespace tessera::cli
