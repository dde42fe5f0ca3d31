#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "tessera/cli/cli.h"
#include "tessera/cli/distributed_arguments.h"
#include "tessera/cli/dtype_option.h"
#include "tessera/cli/rank_arguments.h"
#include "tessera/comm/initialize.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/data/template/chat.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/generate/generator.h"
#include "tessera/model/causal_lm.h"

namespace tessera::cli {
namespace {

struct GenerateOptions {
  std::filesystem::path model;
  std::string prompt;
  std::string chat;
  std::string system;
  std::string dtype = "auto";
  generate::GenerationOptions generation;
  bool stream = false;
  bool json = false;
};

/// A plain prompt as the tokenizer encodes a text of its own; a chat message through the chat template.
std::vector<data::TokenId> prompt_ids(const data::Tokenizer& tokenizer, const GenerateOptions& options, bool is_chat) {
  if (!is_chat) return tokenizer.encode(options.prompt, true);
  OrderedJson messages = OrderedJson::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  messages.push_back({{"role", "user"}, {"content", options.chat}});
  return tokenizer.encode(data::render_chat(tokenizer, messages, true), false);
}

double rate(std::size_t tokens, double seconds) { return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0; }

OrderedJson to_json(const std::vector<data::TokenId>& prompt, const generate::Generation& result, const data::Tokenizer& tokenizer) {
  const std::size_t decoded = result.ids.empty() ? 0 : result.ids.size() - 1;
  return {{"prompt_ids", prompt},
          {"ids", result.ids},
          {"text", tokenizer.decode(result.ids, true)},
          {"stopped", result.stopped},
          {"prompt_tokens_per_second", rate(prompt.size(), result.prompt_seconds)},
          {"tokens_per_second", rate(decoded, result.decode_seconds)}};
}

void print_text(const std::vector<data::TokenId>& prompt, const generate::Generation& result, const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
  fmt::print(stderr, "{} prompt tokens at {:.1f}/s, {} new tokens at {:.1f}/s{}\n", prompt.size(), rate(prompt.size(), result.prompt_seconds),
             result.ids.size(), rate(result.ids.empty() ? 0 : result.ids.size() - 1, result.decode_seconds),
             result.stopped ? "" : " (stopped at --max-new-tokens)");
}

/// The first rank prints.
void continue_and_print(const generate::Generator& generator, const data::Tokenizer& tokenizer, const std::vector<data::TokenId>& prompt,
                        const GenerateOptions& options, bool prints) {
  data::IncrementalDecoder decoder(tokenizer, true);
  const bool streams = prints && options.stream;
  const auto told = [&](data::TokenId id) {
    if (streams) fmt::print("{}", decoder.push(id));
    std::fflush(stdout);
    return true;
  };
  const generate::Generation result = generator.generate(prompt, options.generation, told);
  if (!prints) return;
  if (options.json) {
    print_json(to_json(prompt, result, tokenizer));
  } else {
    print_text(prompt, result, streams ? decoder.finish() : tokenizer.decode(result.ids, true));
  }
}

int generate(const CLI::App& parser, GenerateOptions& options) {
  const auto distributed = distributed_of_overrides(parser.remaining());
  const data::Tokenizer tokenizer = data::load_tokenizer(options.model);
  const std::vector<data::TokenId> prompt = prompt_ids(tokenizer, options, parser.count("--chat") > 0);
  options.generation.stop = tokenizer.end_of_generation();
  const auto dtype = compute_dtype(options.dtype, {DType::F32, DType::BF16}, true);
  if (!distributed) {
    const auto model = model::CausalLM::from_pretrained(options.model, {.dtype = dtype});
    continue_and_print(generate::Generator(model), tokenizer, prompt, options, true);
    return 0;
  }
  const auto backend = comm::initialize_distributed();
  const auto setup = parallel::DistributedSetup::build(*backend, *distributed);
  const auto model = generate::CachedModel::from_pretrained(options.model, setup, dtype, std::ssize(prompt) + options.generation.max_new_tokens);
  continue_and_print(generate::Generator(model), tokenizer, prompt, options, setup.rank() == 0);
  return 0;
}

}  // namespace

Command add_generate(CLI::App& program) {
  const auto options = std::make_shared<GenerateOptions>();
  generate::SamplingOptions& sampling = options->generation.sampling;
  CLI::App* parser = program.add_subcommand("generate", "Continue a prompt or answer a chat message");
  parser->add_option("MODEL", options->model, "Hugging Face model directory")->required();
  CLI::Option_group* input = parser->add_option_group("input");
  input->add_option("--prompt", options->prompt, "Text to continue");
  CLI::Option* chat = input->add_option("--chat", options->chat, "A user's message; the model's chat template is applied");
  input->require_option(1);
  parser->add_option("--system", options->system, "System message of --chat (default: the template's own)")->needs(chat);
  parser->add_option("--max-new-tokens", options->generation.max_new_tokens, "Tokens to generate at most")->capture_default_str()->check(at_least(1));
  parser->add_option("--temperature", sampling.temperature, "0: greedy; larger: more random")->capture_default_str();
  parser->add_option("--top-k", sampling.top_k, "Choose among the k likeliest tokens; 0: all")->capture_default_str();
  parser->add_option("--top-p", sampling.top_p, "Choose among the likeliest tokens that reach this probability")->capture_default_str();
  parser->add_option("--repetition-penalty", sampling.repetition_penalty, "Above 1 makes repeated tokens less likely")->capture_default_str();
  parser->add_option("--seed", sampling.seed, "Of the random choices")->capture_default_str()->check(at_least(0));
  parser->add_option("--dtype", options->dtype, "auto (the checkpoint's), float32 or bfloat16")->capture_default_str();
  CLI::Option* stream = parser->add_flag("--stream", options->stream, "Print the text as it grows");
  parser->add_flag("--json", options->json, "Print ids, text and speed as one JSON document")->excludes(stream);
  const auto ranks = add_rank_arguments(*parser);
  parser->allow_extras();
  parser->footer(
      "Over ranks: --nproc-per-node N, and --distributed.KEY VALUE as in a recipe.\n\nexample:\n"
      "  tessera generate quickstart/SmolLM2-135M-Instruct --chat \"What is the capital of France?\" --stream\n"
      "  tessera generate quickstart/SmolLM2-135M-Instruct --prompt \"Once\" --nproc-per-node 2 --distributed.pp_size 2");
  return {parser, [parser, options] { return generate(*parser, *options); }, ranks};
}

}  // namespace tessera::cli
