#include "tessera/cli/bench_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "tessera/cli/cli.h"
#include "tessera/config/recipe.h"
#include "tessera/core/clock.h"
#include "tessera/core/environment.h"
#include "tessera/core/file.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/data/loader.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/train/recipe_data.h"

namespace tessera::cli {
namespace {

struct BenchDataOptions {
  std::string model;
  std::string path;
  int threads = 1;
  std::int64_t steps = 200;
  bool json = false;
};

/// Encodes every line once, by `threads` threads; the number of tokens.
std::int64_t encode_lines(const data::Tokenizer& tokenizer, const std::vector<std::string>& lines, int threads) {
  std::atomic<std::size_t> next = 0;
  std::atomic<std::int64_t> tokens = 0;
  const auto work = [&] {
    constexpr std::size_t block = 64;
    std::int64_t mine = 0;
    for (std::size_t begin = next.fetch_add(block); begin < lines.size(); begin = next.fetch_add(block))
      for (std::size_t line = begin; line < std::min(lines.size(), begin + block); ++line) mine += std::ssize(tokenizer.encode(lines[line], false));
    tokens += mine;
  };
  {
    std::vector<std::jthread> helpers;
    for (int thread = 1; thread < threads; ++thread) helpers.emplace_back(work);
    work();
  }
  return tokens;
}

int bench_tokenizer(const BenchDataOptions& options) {
  constexpr int kRuns = 5;
  const data::Tokenizer tokenizer = data::load_tokenizer(options.model);
  const std::string text = read_text_file(options.path);
  std::vector<std::string> lines = split(text, '\n');
  std::int64_t tokens = 0;
  double best = 1e30;
  for (int run = 0; run < kRuns; ++run) {
    const Clock::time_point start = Clock::now();
    tokens = encode_lines(tokenizer, lines, options.threads);
    best = std::min(best, seconds_since(start));
  }
  const double megabytes = static_cast<double>(text.size()) / 1e6 / best;
  if (options.json) {
    fmt::print(
        "{}\n",
        OrderedJson{{"megabytes_per_second", megabytes}, {"tokens_per_second", static_cast<double>(tokens) / best}, {"tokens", tokens}}.dump());
  } else {
    fmt::print("{:.2f} MB/s, {:.0f} tokens/s ({} tokens, {} thread(s), best of {})\n", megabytes, static_cast<double>(tokens) / best, tokens,
               options.threads, kRuns);
  }
  return 0;
}

/// Hands out microbatches as training would take them, and drops them.
int bench_loader(const BenchDataOptions& options) {
  const config::LoadedRecipe loaded = config::load_recipe(options.path, {}, process_environment());
  const train::RecipeData recipe_data = train::build_recipe_data(loaded, process_environment());
  const config::StepScheduler& sizes = loaded.recipe.step_scheduler;
  data::Loader loader(
      recipe_data.dataset,
      {.global_batch_size = sizes.global_batch_size, .local_batch_size = config::local_batch_size(loaded.recipe), .num_workers = options.threads});
  std::int64_t tokens = 0;
  const Clock::time_point start = Clock::now();
  for (std::int64_t step = 0; step < options.steps; ++step)
    for (const data::Batch& batch : loader.next().microbatches) tokens += num_tokens(batch);
  const double seconds = seconds_since(start);
  const double rate = static_cast<double>(tokens) / seconds;
  if (options.json) {
    fmt::print("{}\n", OrderedJson{{"tokens_per_second", rate}, {"tokens", tokens}, {"seconds", seconds}}.dump());
  } else {
    fmt::print("{:.0f} tokens/s ({} tokens in {} steps, {} thread(s))\n", rate, tokens, options.steps, options.threads);
  }
  return 0;
}

}  // namespace

std::vector<Command> add_bench_data(CLI::App& bench) {
  const auto options = std::make_shared<BenchDataOptions>();
  CLI::App* tokenizer = bench.add_subcommand("tokenizer", "Encoding of a text, line by line: MB/s, tokens/s");
  tokenizer->add_option("MODEL", options->model, "Model directory or tokenizer file")->required();
  tokenizer->add_option("FILE", options->path, "A file of text")->required();
  CLI::App* loader = bench.add_subcommand("loader", "What a recipe's loader hands out: tokens/s");
  loader->add_option("RECIPE", options->path, "The recipe")->required();
  loader->add_option("--steps", options->steps, "Optimizer steps' worth of microbatches")->capture_default_str()->check(at_least(1));
  for (CLI::App* parser : {tokenizer, loader}) {
    parser->add_option("--threads", options->threads, "Threads")->capture_default_str()->check(at_least(1));
    parser->add_flag("--json", options->json, "Print one JSON document");
  }
  tokenizer->footer("example:\n  tessera bench tokenizer quickstart/SmolLM2-135M-Instruct README.md");
  loader->footer("example:\n  tessera bench loader examples/quickstart/finetune.yaml --steps 20");
  return {{tokenizer, [options] { return bench_tokenizer(*options); }}, {loader, [options] { return bench_loader(*options); }}};
}

}  // namespace tessera::cli
