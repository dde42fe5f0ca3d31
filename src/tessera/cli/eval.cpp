#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tessera/cli/cli.h"
#include "tessera/cli/distributed_arguments.h"
#include "tessera/cli/dtype_option.h"
#include "tessera/cli/rank_arguments.h"
#include "tessera/comm/initialize.h"
#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/terminal.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/data/vocabulary.h"
#include "tessera/generate/cached_model.h"
#include "tessera/generate/evaluate.h"

namespace tessera::cli {
namespace {

struct EvalOptions {
  std::filesystem::path model;
  std::filesystem::path text;
  std::string documents;
  std::string dtype = "auto";
  std::int64_t sequence_length = 0;
  std::int64_t max_tokens = 0;
  bool json = false;
};

/// Each document with BOS before it.
std::vector<std::vector<data::TokenId>> document_ids(const data::Tokenizer& tokenizer, std::string_view text, const std::string& separator) {
  const auto bos = tokenizer.special_tokens().bos;
  if (!bos) throw UserError({"--documents", "the tokenizer has no BOS token to put before each document", "", "leave --documents out"});
  std::vector<std::vector<data::TokenId>> documents;
  for (const std::string& document : generate::split_documents(text, separator)) {
    std::vector<data::TokenId> ids = tokenizer.encode(document, false);
    ids.insert(ids.begin(), *bos);
    documents.push_back(std::move(ids));
  }
  return documents;
}

void cut(std::vector<std::vector<data::TokenId>>& documents, std::int64_t max_tokens) {
  for (auto& document : documents) {
    const auto keep = std::min<std::int64_t>(max_tokens, static_cast<std::int64_t>(document.size()));
    document.resize(static_cast<std::size_t>(keep));
    max_tokens -= keep;
  }
  std::erase_if(documents, [](const auto& document) { return document.empty(); });
}

/// What is evaluated: one token sequence for each document, or one for the whole text.
std::vector<std::vector<data::TokenId>> read_ids(const EvalOptions& options) {
  const data::Tokenizer tokenizer = data::load_tokenizer(options.model);
  const std::string text = read_text_file(options.text);
  std::vector<std::vector<data::TokenId>> documents;
  if (options.documents.empty()) {
    documents.push_back(tokenizer.encode(text, false));
  } else {
    documents = document_ids(tokenizer, text, options.documents);
  }
  if (options.max_tokens > 0) cut(documents, options.max_tokens);
  std::size_t tokens = 0;
  for (const auto& document : documents) tokens = std::max(tokens, document.size());
  if (tokens < 2)
    throw UserError({options.text.string(), "fewer than two tokens", "the loss is that of predicting each next token",
                     options.max_tokens == 1 ? "raise --max-tokens" : "give a longer text"});
  return documents;
}

std::int64_t window_length(const EvalOptions& options, const model::ModelSpec& spec) {
  const std::int64_t longest = spec.max_position_embeddings;
  const std::int64_t length = options.sequence_length > 0 ? options.sequence_length : std::min<std::int64_t>(longest, 2048);
  if (length > longest)
    throw UserError({"--seq-length", fmt::format("{} is more than the model's {} positions", length, longest),
                     "a window fits into the model's positions", fmt::format("use --seq-length {} or less", longest)});
  return length;
}

generate::Evaluation evaluate(const generate::WindowLoss& loss, const model::ModelSpec& spec,
                              const std::vector<std::vector<data::TokenId>>& documents, const EvalOptions& options, bool shows_progress) {
  for (const auto& document : documents) data::check_vocabulary(document, spec.vocab_size, options.text.string());
  const std::int64_t length = window_length(options, spec);
  std::unique_ptr<ProgressBar> progress;
  const auto told = [&](std::int64_t done, std::int64_t total) {
    if (!shows_progress) return;
    if (!progress) progress = std::make_unique<ProgressBar>("evaluating", static_cast<std::uint64_t>(total));
    progress->update(static_cast<std::uint64_t>(done));
  };
  return options.documents.empty() ? generate::evaluate_windows(loss, documents[0], length, told)
                                   : generate::evaluate_documents(loss, documents, length, told);
}

void print(const generate::Evaluation& result, bool as_json) {
  const double rate = result.seconds > 0.0 ? static_cast<double>(result.num_tokens) / result.seconds : 0.0;
  if (as_json) {
    print_json({{"mean_nll", result.mean()},
                {"tokens", result.num_tokens},
                {"documents", result.num_documents},
                {"perplexity", result.perplexity()},
                {"tokens_per_second", rate}});
  } else {
    fmt::print(
        "mean negative log-likelihood  {:.6f}\nperplexity                    {:.4f}\ntokens                        {}\ntokens/s                      "
        "{:.1f}\n",
        result.mean(), result.perplexity(), result.num_tokens, rate);
  }
}

int eval(const CLI::App& parser, const EvalOptions& options) {
  const auto distributed = distributed_of_overrides(parser.remaining());
  const std::vector<std::vector<data::TokenId>> documents = read_ids(options);
  const auto dtype = compute_dtype(options.dtype, {DType::F32, DType::BF16, DType::F64}, true);
  if (!distributed) {
    const auto model = model::CausalLM::from_pretrained(options.model, {.dtype = dtype});
    print(evaluate(generate::window_loss(model), model.spec, documents, options, true), options.json);
    return 0;
  }
  const auto backend = comm::initialize_distributed();
  const auto setup = parallel::DistributedSetup::build(*backend, *distributed);
  const parallel::CausalLM model = generate::load_over_ranks(options.model, setup, {.dtype = dtype});
  const generate::Evaluation result = evaluate(generate::window_loss(model), model.model.spec, documents, options, setup.rank() == 0);
  if (setup.rank() == 0) print(result, options.json);
  return 0;
}

}  // namespace

Command add_eval(CLI::App& program) {
  const auto options = std::make_shared<EvalOptions>();
  CLI::App* parser = program.add_subcommand("eval", "Mean negative log-likelihood and perplexity of a text");
  parser->add_option("MODEL", options->model, "Hugging Face model directory")->required();
  parser->add_option("--text", options->text, "Text file")->required();
  parser->add_option("--seq-length", options->sequence_length, "Positions of one window (default: the model's, at most 2048)")->check(at_least(1));
  parser->add_option("--max-tokens", options->max_tokens, "Use at most this many tokens of the text")->check(at_least(1));
  parser->add_option("--documents", options->documents, "Separator of documents: each is evaluated from its own start, BOS first")
      ->check([](const std::string& separator) { return separator.empty() ? "is empty" : ""; });
  parser->add_option("--dtype", options->dtype, "auto (the checkpoint's), float32, bfloat16 or float64")->capture_default_str();
  parser->add_flag("--json", options->json, "Print one JSON document");
  const auto ranks = add_rank_arguments(*parser);
  parser->allow_extras();
  parser->footer(
      "Over ranks: --nproc-per-node N, and --distributed.KEY VALUE as in a recipe.\n\nexample:\n"
      "  tessera eval quickstart/SmolLM2-135M-Instruct --text README.md --seq-length 1024 --json\n"
      "  tessera eval quickstart/SmolLM2-135M-Instruct --text README.md --nproc-per-node 4 --distributed.pp_size 2");
  return {parser, [parser, options] { return eval(*parser, *options); }, ranks};
}

}  // namespace tessera::cli
