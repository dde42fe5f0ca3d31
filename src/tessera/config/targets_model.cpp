#include "tessera/config/targets.h"

namespace tessera::config {

namespace {

constexpr auto kModel = TargetKind::Model;
constexpr auto kConfig = TargetKind::ModelConfig;
constexpr auto kTokenizer = TargetKind::Tokenizer;

int value(ModelTarget target) { return static_cast<int>(target); }

std::vector<Target> models() {
  constexpr std::string_view other_task = "Tessera trains causal language models";
  return {
      {kModel,
       "from_pretrained",
       {"nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained", "nemo_automodel._transformers.NeMoAutoModelForCausalLM.from_pretrained",
        "nemo_automodel._transformers.auto_model.NeMoAutoModelForCausalLM.from_pretrained", "transformers.AutoModelForCausalLM.from_pretrained"},
       Support::Supported,
       "",
       value(ModelTarget::Pretrained)},
      {kModel,
       "from_config",
       {"nemo_automodel.NeMoAutoModelForCausalLM.from_config", "nemo_automodel._transformers.NeMoAutoModelForCausalLM.from_config",
        "nemo_automodel._transformers.auto_model.NeMoAutoModelForCausalLM.from_config", "transformers.AutoModelForCausalLM.from_config"},
       Support::Supported,
       "",
       value(ModelTarget::Config)},
      {kModel, "", {"nemo_automodel.components.models.gpt2.build_gpt2_model"}, Support::Supported, "", value(ModelTarget::Gpt2Builder)},
      {kModel,
       "",
       {"nemo_automodel.*NeMoAutoModelForSequenceClassification.from_*", "transformers.AutoModelForSequenceClassification.from_*"},
       Support::NotSupported,
       other_task,
       value(ModelTarget::Other)},
      {kModel,
       "",
       {"nemo_automodel.*NeMoAutoModelForImageTextToText.from_*", "nemo_automodel.*NeMoAutoModelForMultimodalLM.from_*",
        "transformers.AutoModelForImageTextToText.from_*"},
       Support::NotSupported,
       "Tessera trains text models; images and sound are not read",
       value(ModelTarget::Other)},
      {kModel,
       "",
       {"nemo_automodel.*NeMoAutoModelForTokenClassification.from_*", "nemo_automodel.*NeMoAutoModelForSeq2SeqLM.from_*",
        "nemo_automodel.*NeMoAutoModelForTextToWaveform.from_*", "nemo_automodel.*NeMoAutoModelBiEncoder.from_*",
        "nemo_automodel.*NeMoAutoModelCrossEncoder.from_*", "nemo_automodel._transformers.retrieval.*", "transformers.AutoModel.from_*",
        "transformers.AutoModelForSeq2SeqLM.from_*", "transformers.AutoModelForTokenClassification.from_*"},
       Support::NotSupported,
       other_task,
       value(ModelTarget::Other)},
      {kModel,
       "",
       {"nemo_automodel.components.models.*"},
       Support::NotSupported,
       "it is Python code of one architecture; name the model by its directory instead",
       value(ModelTarget::Other)},
  };
}

/// A configuration class of transformers; its native name is the model_type that config.json would hold.
Target config_class(std::string_view model_type, std::vector<std::string_view> python) { return {kConfig, model_type, std::move(python)}; }

std::vector<Target> configs() {
  return {
      {kConfig, "auto", {"transformers.AutoConfig.from_pretrained", "transformers.AutoConfig", "transformers.AutoConfig.for_model"}},
      config_class("llama", {"transformers.LlamaConfig", "transformers.models.llama.configuration_llama.LlamaConfig"}),
      config_class("mistral", {"transformers.MistralConfig", "transformers.models.mistral.configuration_mistral.MistralConfig"}),
      config_class("qwen2", {"transformers.Qwen2Config", "transformers.models.qwen2.configuration_qwen2.Qwen2Config"}),
      config_class("qwen3", {"transformers.Qwen3Config", "transformers.models.qwen3.configuration_qwen3.Qwen3Config"}),
      config_class("gpt2", {"transformers.GPT2Config", "transformers.models.gpt2.configuration_gpt2.GPT2Config"}),
      config_class("phi3", {"transformers.Phi3Config", "transformers.models.phi3.configuration_phi3.Phi3Config"}),
      config_class("olmo2", {"transformers.Olmo2Config", "transformers.models.olmo2.configuration_olmo2.Olmo2Config"}),
      config_class("gemma2", {"transformers.Gemma2Config", "transformers.models.gemma2.configuration_gemma2.Gemma2Config"}),
      config_class("gemma3_text", {"transformers.Gemma3TextConfig", "transformers.models.gemma3.configuration_gemma3.Gemma3TextConfig"}),
      config_class("granite", {"transformers.GraniteConfig", "transformers.models.granite.configuration_granite.GraniteConfig"}),
      config_class("mixtral", {"transformers.MixtralConfig", "transformers.models.mixtral.configuration_mixtral.MixtralConfig"}),
      config_class("qwen2_moe", {"transformers.Qwen2MoeConfig", "transformers.models.qwen2_moe.configuration_qwen2_moe.Qwen2MoeConfig"}),
      config_class("qwen3_moe", {"transformers.Qwen3MoeConfig", "transformers.models.qwen3_moe.configuration_qwen3_moe.Qwen3MoeConfig"}),
      config_class("gpt_oss", {"transformers.GptOssConfig", "transformers.models.gpt_oss.configuration_gpt_oss.GptOssConfig"}),
      config_class("deepseek_v3", {"transformers.DeepseekV3Config", "transformers.models.deepseek_v3.configuration_deepseek_v3.DeepseekV3Config"}),
      config_class("glm4_moe", {"transformers.Glm4MoeConfig", "transformers.models.glm4_moe.configuration_glm4_moe.Glm4MoeConfig"}),
      {kConfig,
       "",
       {"transformers.*Config", "transformers.*Config.from_pretrained", "nemo_automodel.components.models.*Config",
        "nemo_automodel.components.models.*Config.from_pretrained"},
       Support::NotSupported,
       "this architecture is not among Tessera's model families"},
  };
}

std::vector<Target> tokenizers_and_adapters() {
  return {
      {kTokenizer,
       "auto",
       {"nemo_automodel.NeMoAutoTokenizer.from_pretrained", "nemo_automodel._transformers.NeMoAutoTokenizer.from_pretrained",
        "nemo_automodel._transformers.auto_tokenizer.NeMoAutoTokenizer.from_pretrained", "transformers.AutoTokenizer.from_pretrained",
        "transformers.PreTrainedTokenizerFast.from_pretrained", "transformers.GPT2TokenizerFast.from_pretrained",
        "transformers.GPT2Tokenizer.from_pretrained", "transformers.LlamaTokenizerFast.from_pretrained"}},
      {kTokenizer,
       "",
       {"nemo_automodel.components.models.*.from_pretrained", "transformers.AutoProcessor.from_pretrained"},
       Support::NotSupported,
       "it prepares images or sound, which Tessera does not read"},
      {TargetKind::Peft,
       "lora",
       {"nemo_automodel.components._peft.lora.PeftConfig", "nemo_automodel.PeftConfig"},
       Support::NotSupportedYet,
       "adapters are still to come; only full fine-tuning works now"},
      {TargetKind::ModelBackend,
       "backend",
       {"nemo_automodel.components.models.common.BackendConfig", "nemo_automodel.components.models.common.utils.BackendConfig",
        "nemo_automodel.components.moe.utils.BackendConfig"}},
  };
}

}  // namespace

std::vector<Target> model_targets() {
  std::vector<Target> all = models();
  for (const auto& part : {configs(), tokenizers_and_adapters()}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace tessera::config
