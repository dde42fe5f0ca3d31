#pragma once

#include <span>
#include <string_view>

#include "tessera/model/config_reader.h"
#include "tessera/model/spec.h"

namespace tessera::model {

/// One architecture: how its config.json becomes a ModelSpec. To add one, write a file like llama.cpp next to this header, declare its function below
/// and list it in families.cpp; the decoder changes only when the mathematics is new.
struct Family {
  std::string_view model_type;
  void (*describe)(ConfigReader& config, ModelSpec& spec);
};

std::span<const Family> families();
/// nullptr when there is none.
const Family* find_family(std::string_view model_type);

void describe_llama(ConfigReader& config, ModelSpec& spec);
void describe_mistral(ConfigReader& config, ModelSpec& spec);
void describe_qwen2(ConfigReader& config, ModelSpec& spec);
void describe_qwen3(ConfigReader& config, ModelSpec& spec);
void describe_gpt2(ConfigReader& config, ModelSpec& spec);
void describe_phi3(ConfigReader& config, ModelSpec& spec);
void describe_olmo2(ConfigReader& config, ModelSpec& spec);
void describe_gemma2(ConfigReader& config, ModelSpec& spec);
void describe_gemma3(ConfigReader& config, ModelSpec& spec);
void describe_granite(ConfigReader& config, ModelSpec& spec);
void describe_mixtral(ConfigReader& config, ModelSpec& spec);
void describe_qwen2_moe(ConfigReader& config, ModelSpec& spec);
void describe_qwen3_moe(ConfigReader& config, ModelSpec& spec);
void describe_gpt_oss(ConfigReader& config, ModelSpec& spec);
void describe_deepseek_v3(ConfigReader& config, ModelSpec& spec);
void describe_glm4_moe(ConfigReader& config, ModelSpec& spec);

}  // namespace tessera::model
