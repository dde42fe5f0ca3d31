#include "tessera/model/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/logging.h"
#include "tessera/core/text.h"
#include "tessera/model/config_fields.h"
#include "tessera/model/config_position.h"
#include "tessera/model/config_reader.h"
#include "tessera/model/families/families.h"

namespace tessera::model {
namespace {

/// Model types of transformers that Tessera refuses by name.
constexpr std::array kForeignTypes = std::to_array<std::string_view>(
    {"apertus",     "arcee",           "bamba",    "bart",     "bert",       "biogpt",      "bitnet",     "bloom",
     "codegen",     "cohere",          "cohere2",  "ctrl",     "dbrx",       "deepseek_v2", "ernie4_5",   "exaone4",
     "falcon",      "falcon_h1",       "fuyu",     "gemma",    "gemma3",     "gemma3n",     "glm",        "glm4",
     "gpt_bigcode", "gpt_neo",         "gpt_neox", "gptj",     "granitemoe", "helium",      "hunyuan_v1", "internlm2",
     "jamba",       "jetmoe",          "lfm2",     "llama4",   "mamba",      "mamba2",      "minimax",    "ministral",
     "mistral3",    "moonshine",       "mpt",      "nemotron", "nemotron_h", "olmo",        "olmo3",      "olmoe",
     "opt",         "persimmon",       "phi",      "phi-msft", "phimoe",     "qwen2_vl",    "qwen3_next", "qwen2_5_vl",
     "qwen3_vl",    "recurrent_gemma", "roberta",  "rwkv",     "seed_oss",   "smollm3",     "stablelm",   "starcoder2",
     "t5",          "xlnet",           "zamba"});

constexpr const char* kOneOfThese = "choose a model of one of these families";

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

Problem not_an_object(const std::string& where) {
  return {where, "not a JSON object", "a model configuration is a JSON object", "check the path; if it is right, download config.json again"};
}

[[noreturn]] void refuse_model_type(const std::string& type, const std::string& where) {
  const auto known = supported_model_types();
  const std::string supported = "supported: " + joined(known);
  std::string what = fmt::format("model_type '{}' is unknown", type);
  std::string fix = did_you_mean(type, known, kOneOfThese);
  if (std::ranges::find(kForeignTypes, type) != kForeignTypes.end()) {
    what = fmt::format("model_type '{}' is not supported", type);
    fix = type == "gemma3" ? "use a text-only checkpoint (model_type gemma3_text)" : kOneOfThese;
  }
  throw UserError(Problem{where, what, supported, fix});
}

void judge_unread_fields(ConfigReader& reader, const ConfigReader::Locate& locate, const std::string& model_type) {
  for (const std::string& key : reader.unread()) {
    const Json& value = reader.json().at(key);
    switch (meaning_of_unread_field(key, value)) {
      case FieldMeaning::Refused:
        reader.not_supported(key, fmt::format("a {} model is computed without it", model_type));
        break;
      case FieldMeaning::Unknown:
        log::warning("{}: {} is not a field that {} models are known to use; it is ignored", locate(key), key, model_type);
        break;
      default:
        break;
    }
  }
}

/// Weights that are dequantised as they are read (formats/dequantized_source.h); others cannot be.
void judge_quantization(ConfigReader& reader) {
  const Json* quantization = reader.find("quantization_config");
  if (quantization == nullptr || quantization->empty()) return;
  const std::string method = quantization->is_object() ? quantization->value("quant_method", "") : "";
  const Json block = quantization->is_object() ? quantization->value("weight_block_size", Json::array({128, 128})) : Json();
  if (method == "mxfp4" || (method == "fp8" && block == Json::array({128, 128}))) return;
  reader.not_supported("quantization_config", "weights are plain, FP8 in blocks of 128 × 128, or MXFP4", "take a checkpoint that is not quantised");
}

ModelSpec read_spec(const Json& config, const std::string& where, const ConfigReader::Locate& locate) {
  if (!config.is_object()) throw UserError(not_an_object(where));
  ConfigReader reader(config, locate);
  const std::string type = reader.text("model_type", "");
  if (type.empty()) {
    throw UserError(Problem{where, "model_type is missing", "it says which family computes the model: " + joined(supported_model_types()),
                            "add model_type, or download config.json again from where the model was published"});
  }
  const Family* family = find_family(type);
  if (family == nullptr) refuse_model_type(type, locate("model_type"));
  ModelSpec spec;
  spec.model_type = type;
  family->describe(reader, spec);
  judge_quantization(reader);
  judge_unread_fields(reader, locate, type);
  reader.problems().throw_if_any();
  return spec;
}

/// The line of the first `"key":` in the text; the path alone when there is none.
std::string locate_field(const std::string& path, const std::string& text, const std::string& key) {
  const std::string quoted = '"' + key + '"';
  for (auto position = text.find(quoted); position != std::string::npos; position = text.find(quoted, position + 1)) {
    const auto next = text.find_first_not_of(" \t\r\n", position + quoted.size());
    if (next == std::string::npos || text[next] != ':') continue;
    return fmt::format("{}:{}", path, 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
  }
  return path;
}

std::filesystem::path config_path(const std::filesystem::path& directory_or_config_json) {
  if (!std::filesystem::is_directory(directory_or_config_json)) return directory_or_config_json;
  auto path = directory_or_config_json / "config.json";
  if (!std::filesystem::exists(path)) {
    throw UserError(Problem{directory_or_config_json.string(), "the directory has no config.json",
                            "a model directory describes the model in config.json",
                            "check the path, or make a model directory with `tessera convert`"});
  }
  return path;
}

}  // namespace

Json read_config_json(const std::filesystem::path& directory_or_config_json) {
  const auto path = config_path(directory_or_config_json);
  Json config = read_json_file(path);
  if (!config.is_object()) throw UserError(not_an_object(path.string()));
  return config;
}

ModelSpec read_model_spec(const std::filesystem::path& directory_or_config_json) {
  const auto path = config_path(directory_or_config_json);
  return model_spec_from_json(read_json_file(path), path.string(), lines_of_fields(path));
}

ModelSpec model_spec_from_json(const Json& config, const std::string& where) {
  return read_spec(config, where, [&](const std::string&) { return where; });
}

ModelSpec model_spec_from_json(const Json& config, const std::string& where, const LocateField& locate) { return read_spec(config, where, locate); }

LocateField lines_of_fields(const std::filesystem::path& config_json) {
  return [path = config_json.string(), text = read_text_file(config_json)](const std::string& key) { return locate_field(path, text, key); };
}

std::vector<std::string> supported_model_types() {
  std::vector<std::string> types;
  for (const Family& family : families()) types.emplace_back(family.model_type);
  std::ranges::sort(types);
  return types;
}

}  // namespace tessera::model
