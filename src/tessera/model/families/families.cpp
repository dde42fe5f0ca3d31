#include "tessera/model/families/families.h"

#include <algorithm>
#include <array>

namespace tessera::model {
namespace {

constexpr std::array kFamilies = std::to_array<Family>({
    {"llama", describe_llama},
    {"mistral", describe_mistral},
    {"qwen2", describe_qwen2},
    {"qwen3", describe_qwen3},
    {"gpt2", describe_gpt2},
    {"phi3", describe_phi3},
    {"olmo2", describe_olmo2},
    {"gemma2", describe_gemma2},
    {"gemma3_text", describe_gemma3},
    {"granite", describe_granite},
    {"mixtral", describe_mixtral},
    {"qwen2_moe", describe_qwen2_moe},
    {"qwen3_moe", describe_qwen3_moe},
    {"gpt_oss", describe_gpt_oss},
    {"deepseek_v3", describe_deepseek_v3},
    {"glm4_moe", describe_glm4_moe},
});

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == kFamilies.end() ? nullptr : &*found;
}

}  // namespace tessera::model
