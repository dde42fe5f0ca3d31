#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>

#include "tessera/cli/cli.h"
#include "tessera/config/recipe.h"
#include "tessera/core/environment.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/data/dataset/build.h"
#include "tessera/data/dataset/files.h"
#include "tessera/data/dataset/guess.h"
#include "tessera/data/preprocess.h"
#include "tessera/data/summary.h"
#include "tessera/train/recipe_data.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInspectExample = "example:\n  tessera data inspect examples/quickstart/finetune.yaml";
constexpr const char* kPreprocessExample =
    "example:\n  tessera data preprocess examples/quickstart/facts.jsonl --column answer --tokenizer quickstart/SmolLM2-135M-Instruct "
    "--output-prefix /tmp/facts";

struct DataOptions {
  std::vector<std::string> inputs;
  fs::path tokenizer;
  fs::path output;
  data::PreprocessOptions preprocess = {.num_threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))};
  std::string path;
  std::int64_t seq_length = 1024;
  std::int64_t num_shown = 3;
  std::int64_t most = 10'000;
  bool json = false;
};

int preprocess(const DataOptions& options) {
  const data::Tokenizer tokenizer = data::load_tokenizer(options.tokenizer);
  const data::PreprocessResult result =
      data::preprocess(*posix_file_operations(), data::find_data_files(options.inputs), tokenizer, options.output, options.preprocess);
  if (options.json) {
    fmt::print(
        "{}\n",
        OrderedJson{
            {"prefix", result.prefix.string()}, {"documents", result.num_documents}, {"tokens", result.num_tokens}, {"text_bytes", result.text_bytes}}
            .dump());
  } else {
    fmt::print("{}.bin and .idx: {} documents, {} tokens from {} of text\n", result.prefix.string(), result.num_documents, result.num_tokens,
               human_bytes(static_cast<double>(result.text_bytes)));
  }
  return 0;
}

bool is_recipe(const fs::path& path) { return path.extension() == ".yaml" || path.extension() == ".yml"; }

/// A recipe's training data, or a file's by what it holds.
train::RecipeData open_data(const DataOptions& options) {
  if (is_recipe(options.path)) return train::build_recipe_data(config::load_recipe(options.path, {}, process_environment()), process_environment());
  train::RecipeData data;
  if (!options.tokenizer.empty()) data.tokenizer = data::load_tokenizer(options.tokenizer);
  config::Dataset guessed = data::guess_dataset(options.path);
  guessed.seq_length = guessed.seq_length.value_or(options.seq_length);
  data::DatasetContext context{.tokenizer = data.tokenizer, .num_threads = options.preprocess.num_threads};
  if (data.tokenizer && data.tokenizer->chat_template()) context.chat_template = data::chat_template_of(*data.tokenizer);
  data.dataset = data::build_dataset(guessed, context, options.path);
  return data;
}

std::int64_t at_share(const std::vector<std::int64_t>& ascending, double share) {
  return ascending[static_cast<std::size_t>(share * static_cast<double>(ascending.size() - 1))];
}

void print_histogram(const data::DatasetSummary& summary) {
  constexpr std::int64_t kBins = 12;
  constexpr std::int64_t kWidth = 40;
  const auto bins = data::length_histogram(summary.lengths, kBins);
  const std::int64_t most = std::ranges::max_element(bins, {}, &data::LengthBin::count)->count;
  for (const data::LengthBin& bin : bins) {
    std::string bar;
    for (std::int64_t i = 0; i < (bin.count * kWidth + most - 1) / most; ++i) bar += "█";
    fmt::print("  {:>7} to {:<7} {:>8}  {}\n", bin.begin, bin.end - 1, bin.count, bar);
  }
}

void print_summary(const data::Dataset& dataset, const data::DatasetSummary& summary) {
  const auto measured = static_cast<double>(summary.num_measured), tokens = static_cast<double>(summary.num_tokens);
  fmt::print("dataset    {}\nsamples    {}{}\n", dataset.description(), summary.num_samples,
             summary.num_measured < summary.num_samples ? fmt::format(" (figures below from {} of them)", summary.num_measured) : "");
  fmt::print("tokens     {} ({:.1f} a sample; shortest {}, median {}, longest {})\n", summary.num_tokens, tokens / measured, summary.lengths.front(),
             at_share(summary.lengths, 0.5), summary.lengths.back());
  if (summary.num_documents > summary.num_measured)
    fmt::print("documents  {} ({:.1f} a sample)\n", summary.num_documents, static_cast<double>(summary.num_documents) / measured);
  fmt::print("trained on {} tokens, {:.1f} %\nlengths\n", summary.num_trained, 100.0 * static_cast<double>(summary.num_trained) / tokens);
  print_histogram(summary);
}

/// What is trained on is green; where there are no colours it is between ⟦ and ⟧.
void print_sample(const data::Sample& sample, const data::Tokenizer* tokenizer, std::int64_t number) {
  const bool colours = ::isatty(STDOUT_FILENO) == 1;
  const std::string_view open = colours ? "\033[32m" : "⟦", close = colours ? "\033[0m" : "⟧";
  fmt::print("\nsample {} ({} tokens)\n", number, sample.input_ids.size());
  for (const data::SampleSpan& span : data::sample_spans(sample, tokenizer)) {
    if (span.trained) {
      fmt::print("{}{}{}", open, span.text, close);
    } else {
      fmt::print("{}", span.text);
    }
  }
  fmt::print("\n");
}

OrderedJson to_json(const data::DatasetSummary& summary) {
  OrderedJson bins = OrderedJson::array();
  for (const data::LengthBin& bin : data::length_histogram(summary.lengths, 12)) bins.push_back({bin.begin, bin.end, bin.count});
  return {{"samples", summary.num_samples}, {"measured", summary.num_measured},   {"tokens", summary.num_tokens},
          {"trained", summary.num_trained}, {"documents", summary.num_documents}, {"lengths", bins}};
}

int inspect(const DataOptions& options) {
  const train::RecipeData data = open_data(options);
  const data::DatasetSummary summary = data::summarize(*data.dataset, options.most, options.preprocess.num_threads);
  if (options.json) {
    fmt::print("{}\n", to_json(summary).dump());
    return 0;
  }
  print_summary(*data.dataset, summary);
  for (std::int64_t number = 0; number < std::min(options.num_shown, summary.num_samples); ++number)
    print_sample(data.dataset->sample(number), data.tokenizer ? &*data.tokenizer : nullptr, number);
  return 0;
}

CLI::App* add_preprocess(CLI::App& data, DataOptions& options) {
  CLI::App* parser = data.add_subcommand("preprocess", "Tokenise text into a Megatron .bin and .idx");
  parser
      ->add_option("INPUT", options.inputs,
                   "JSONL, JSON, Parquet, Arrow or CSV files with a text column, or plain text files (also .gz, .zst); folders and patterns too")
      ->required();
  parser->add_option("--tokenizer", options.tokenizer, "Model directory or tokenizer file")->required();
  parser->add_option("--output-prefix", options.output, "Writes PREFIX_COLUMN_document.bin and .idx")->required();
  parser->add_option("--column", options.preprocess.text_column, "The column with the text")->capture_default_str();
  parser->add_flag("--append-eod", options.preprocess.append_eod, "Close each document with the tokenizer's end-of-text token");
  parser->add_option("--workers", options.preprocess.num_threads, "Threads (default: one per core)")->check(at_least(1));
  parser->add_flag("--json", options.json, "Print one JSON document");
  parser->footer(kPreprocessExample);
  return parser;
}

CLI::App* add_inspect_data(CLI::App& data, DataOptions& options) {
  CLI::App* parser = data.add_subcommand("inspect", "Counts, lengths and the first samples, with the tokens that are trained on");
  parser->add_option("PATH", options.path, "A recipe (its training data), a file of records, a Megatron prefix, or a NanoGPT shard")->required();
  parser->add_option("--tokenizer", options.tokenizer, "Model directory or tokenizer file, for files of text and to decode tokens");
  parser->add_option("--seq-length", options.seq_length, "Tokens of a sample, where the file's kind cuts text into pieces")
      ->capture_default_str()
      ->check(at_least(1));
  parser->add_option("--samples", options.num_shown, "Samples to show")->capture_default_str()->check(at_least(0));
  parser->add_option("--most", options.most, "Samples to measure, spread evenly")->capture_default_str()->check(at_least(1));
  parser->add_flag("--json", options.json, "Print the figures as one JSON document");
  parser->footer(kInspectExample);
  return parser;
}

}  // namespace

Command add_data(CLI::App& program) {
  const auto options = std::make_shared<DataOptions>();
  CLI::App* parser = program.add_subcommand("data", "Prepare data sets and look into them");
  parser->require_subcommand(1);
  parser->footer(kInspectExample);
  return {parser,
          nullptr,
          nullptr,
          {{add_preprocess(*parser, *options), [options] { return preprocess(*options); }},
           {add_inspect_data(*parser, *options), [options] { return inspect(*options); }}}};
}

}  // namespace tessera::cli
