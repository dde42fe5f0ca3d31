#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "tessera/cli/bench_comm.h"
#include "tessera/cli/bench_data.h"
#include "tessera/cli/cli.h"
#include "tessera/cli/dtype_option.h"
#include "tessera/core/clock.h"
#include "tessera/core/error.h"
#include "tessera/core/memory.h"
#include "tessera/core/random.h"
#include "tessera/core/terminal.h"
#include "tessera/formats/huggingface.h"
#include "tessera/generate/generator.h"
#include "tessera/model/config.h"
#include "tessera/model/summary.h"
#include "tessera/train/matmul_peak.h"
#include "tessera/train/step.h"

namespace tessera::cli {
namespace {

constexpr int kGenerations = 3;  // the best counts

struct BenchOptions {
  std::filesystem::path model;
  std::string dtype = "float32";
  std::int64_t batch = 4;
  std::int64_t length = 256;
  std::int64_t steps = 5;
  std::int64_t tokens = 64;
  bool json = false;
};

DType dtype_of(const BenchOptions& options) { return *compute_dtype(options.dtype, {DType::F32, DType::BF16}); }

double seconds_of(const auto& work) {
  const Clock::time_point start = Clock::now();
  work();
  return seconds_since(start);
}

/// Random tokens, every position a label.
data::Batch random_batch(std::int64_t rows, std::int64_t length, std::int64_t vocab_size) {
  data::Batch batch{.rows = rows, .length = length};
  const CounterRandom random(0, "bench", std::uint64_t{0});
  for (std::int64_t i = 0; i < rows * length; ++i) {
    batch.input_ids.push_back(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(vocab_size), static_cast<std::uint64_t>(2 * i))));
    batch.labels.push_back(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(vocab_size), static_cast<std::uint64_t>(2 * i + 1))));
    batch.position_ids.push_back(i % length);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    batch.lengths.push_back(length);
    batch.numbers.push_back(row);
  }
  return batch;
}

int bench_train(const BenchOptions& options) {
  keep_freed_memory();
  const DType dtype = dtype_of(options);
  const model::ModelSpec spec = model::read_model_spec(options.model);
  const auto backend = comm::self_backend();
  const auto setup = parallel::DistributedSetup::build(*backend, {});
  parallel::CausalLM model = parallel::CausalLM::from_config(spec, 0, setup, {.dtype = dtype, .trainable = true});
  optim::Optimizer optimizer(*model.model.store, {});
  const std::vector<data::Batch> batches{random_batch(options.batch, options.length, spec.vocab_size)};
  ProgressBar bar("steps", static_cast<std::uint64_t>(options.steps + 1));
  double best = 1e30, total = 0.0;
  for (std::int64_t step = 0; step <= options.steps; ++step) {
    const double seconds =
        seconds_of([&] { train::training_step(model, optimizer, batches, static_cast<std::uint64_t>(step), {.learning_rate = 1e-5}, 1.0); });
    bar.advance(1);
    if (step == 0) continue;  // the first one touches the memory
    best = std::min(best, seconds);
    total += seconds;
  }
  bar.clear();
  const double peak = train::measured_matmul_peak(dtype == DType::BF16 ? at::kBFloat16 : at::kFloat);
  const auto tokens = static_cast<double>(options.batch * options.length);
  const double share = model::flops_per_token(spec, options.length) * tokens / best / peak;
  const double mean = total / static_cast<double>(options.steps);
  if (options.json) {
    print_json({{"tokens_per_second", tokens / mean},
                {"best_tokens_per_second", tokens / best},
                {"seconds_per_step", mean},
                {"peak_memory_gib", to_gib(peak_resident_bytes())},
                {"matmul_peak_gflops", peak / 1e9},
                {"peak_share", share}});
  } else {
    fmt::print("tokens/s      {:.1f} (best step {:.1f})\npeak memory   {:.2f} GiB\nmatmul peak   {:.1f} GFLOP/s, the best step reaches {:.1f} %\n",
               tokens / mean, tokens / best, to_gib(peak_resident_bytes()), peak / 1e9, 100.0 * share);
  }
  return 0;
}

/// The directory's own weights, in the form it keeps them; random ones where there are none.
model::CausalLM model_to_run(const BenchOptions& options) {
  const model::CausalLMOptions how{.dtype = dtype_of(options)};
  if (std::filesystem::is_directory(options.model) && formats::has_weights(options.model))
    return model::CausalLM::from_pretrained(options.model, how);
  return model::CausalLM::from_config(model::read_model_spec(options.model), 0, how);
}

std::int64_t weight_bytes(const model::ParameterStore& store) {
  std::int64_t bytes = 0;
  for (const model::FlatBuffer& buffer : store.buffers()) bytes += buffer.compute.numel() * buffer.compute.element_size();
  return bytes;
}

int bench_generate(const BenchOptions& options) {
  const model::CausalLM model = model_to_run(options);
  const model::ModelSpec& spec = model.spec;
  std::vector<data::TokenId> prompt;
  for (data::TokenId i = 0; i < 16; ++i) prompt.push_back(i % static_cast<data::TokenId>(spec.vocab_size));
  const generate::Generator generator(model);
  double seconds = 1e30, decode_seconds = 1e30;
  for (int run = 0; run < kGenerations; ++run) {
    generate::Generation result;
    seconds =
        std::min(seconds, seconds_of([&] { result = generator.generate(prompt, {.max_new_tokens = options.tokens, .sampling = {}, .stop = {}}); }));
    decode_seconds = std::min(decode_seconds, result.decode_seconds);
  }
  const double rate = static_cast<double>(options.tokens) / seconds;
  const double decode_rate = static_cast<double>(options.tokens - 1) / decode_seconds;
  const double bandwidth = static_cast<double>(weight_bytes(*model.store)) * decode_rate / 1e9;
  if (options.json) {
    print_json({{"tokens_per_second", rate},
                {"decode_tokens_per_second", decode_rate},
                {"weight_gigabytes_per_second", bandwidth},
                {"peak_memory_gib", to_gib(peak_resident_bytes())}});
  } else {
    fmt::print("tokens/s      {:.1f} (prompt included)\ndecoding      {:.1f} tokens/s (weights read at {:.1f} GB/s)\npeak memory   {:.2f} GiB\n",
               rate, decode_rate, bandwidth, to_gib(peak_resident_bytes()));
  }
  return 0;
}

CLI::App* add_bench_command(CLI::App& bench, const std::string& name, const std::string& description, const std::string& weights,
                            BenchOptions& options) {
  CLI::App* parser = bench.add_subcommand(name, description);
  parser->add_option("MODEL", options.model, weights)->required();
  parser->add_option("--dtype", options.dtype, "float32 or bfloat16")->capture_default_str();
  parser->add_flag("--json", options.json, "Print one JSON document");
  return parser;
}

}  // namespace

Command add_bench(CLI::App& program) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* parser = program.add_subcommand("bench", "Measure training, generation, data and the ranks' communication");
  parser->require_subcommand(1);
  CLI::App* train = add_bench_command(*parser, "train", "Training steps: tokens/s, memory, share of the matrix-product peak",
                                      "Model directory or config.json; weights are random", *options);
  train->add_option("--batch", options->batch, "Rows of a microbatch")->capture_default_str()->check(at_least(1));
  train->add_option("--length", options->length, "Tokens of a row")->capture_default_str()->check(at_least(1));
  train->add_option("--steps", options->steps, "Steps to time after the first")->capture_default_str()->check(at_least(1));
  CLI::App* generate = add_bench_command(*parser, "generate", "Greedy decoding of one sequence: tokens/s",
                                         "Model directory, or config.json for random weights", *options);
  generate->add_option("--tokens", options->tokens, "Tokens to generate")->capture_default_str()->check(CLI::Range(2, 1 << 20));
  for (CLI::App* described : {parser, train})
    described->footer("example:\n  tessera bench train quickstart/SmolLM2-135M-Instruct --batch 4 --length 256 --dtype float32 --json");
  generate->footer("example:\n  tessera bench generate quickstart/SmolLM2-135M-Instruct --tokens 32");
  std::vector<Command> commands{
      {train, [options] { return bench_train(*options); }}, {generate, [options] { return bench_generate(*options); }}, add_bench_comm(*parser)};
  std::ranges::copy(add_bench_data(*parser), std::back_inserter(commands));
  return {parser, nullptr, nullptr, std::move(commands)};
}

}  // namespace tessera::cli
