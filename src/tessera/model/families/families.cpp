#include "tessera/model/families/families.h"

#include <algorithm>
#include <array>

namespace tessera::model {
namespace {

constexpr std::array kFamilies = std::to_array<Family>({
    {"llama", describe_llama, StagePlan::Units},
    {"mistral", describe_mistral, StagePlan::Units},
    {"qwen2", describe_qwen2, StagePlan::Units},
    {"qwen3", describe_qwen3, StagePlan::Units},
    {"gpt2", describe_gpt2, StagePlan::Units},
    {"phi3", describe_phi3, StagePlan::Units},
    {"olmo2", describe_olmo2, StagePlan::Units},
    {"gemma2", describe_gemma2, StagePlan::Units},
    {"gemma3_text", describe_gemma3, StagePlan::Units},
    {"granite", describe_granite, StagePlan::Units},
    {"mixtral", describe_mixtral, StagePlan::Units},
    {"qwen2_moe", describe_qwen2_moe, StagePlan::Units},
    {"qwen3_moe", describe_qwen3_moe, StagePlan::Units},
    {"gpt_oss", describe_gpt_oss, StagePlan::Units},
    {"deepseek_v3", describe_deepseek_v3, StagePlan::Units},
    {"glm4_moe", describe_glm4_moe, StagePlan::Units},
});

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == kFamilies.end() ? nullptr : &*found;
}

}  // namespace tessera::model
