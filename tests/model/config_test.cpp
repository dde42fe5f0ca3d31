#include "tessera/model/config.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "support/support.h"
#include "tessera/core/error.h"
#include "tessera/model/config_position.h"
#include "tessera/model/parameter_table.h"

namespace tessera::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Json small_llama() {
  return Json{{"model_type", "llama"},   {"vocab_size", 32},       {"hidden_size", 16},
              {"intermediate_size", 24}, {"num_hidden_layers", 3}, {"num_attention_heads", 4}};
}

ModelSpec spec_of(const Json& config) { return model_spec_from_json(config, "config.json"); }
std::string error_of_config(const Json& config) {
  return test::error_of([&] { spec_of(config); });
}

/// What transformers 5.24 makes of the same files: parameters counted on the meta device. Of models of experts, what their pages publish.
TEST(Config, CountsTheParametersOfRealModelsAsTransformersDoes) {
  const std::map<std::string, std::int64_t> expected = {
      {"aic_Qwen--Qwen3-0.6B", 596049920},
      {"aic_Qwen--Qwen3-30B-A3B", 30532122624},
      {"aic_deepseek-ai--DeepSeek-V3", 671026419200},
      {"aic_meta-llama--Meta-Llama-3.1-405B", 405853388800},
      {"aic_mistralai--Mixtral-8x7B-v0.1", 46702792704},
      {"aic_openai--gpt-oss-20b", 20914757184},
      {"mlc_gemma2_2b", 2614341888},
      {"mlc_gemma3_1b_it", 999885952},
      {"mlc_gpt2", 124439808},
      {"mlc_llama2_7b", 6738415616},
      {"mlc_llama3_2_1b", 1235814400},
      {"mlc_mistral_7b_v03", 7248023552},
      {"mlc_olmo2_7b", 7298617344},
      {"mlc_phi-3_5", 3821079552},
      {"mlc_phi-4", 3836021760},
      {"mlc_qwen2_0_5b", 494032768},
      {"mlc_qwen2moe", 14315784192},
      {"mlc_smollm2_135m", 134515008},
      {"xft_llama-3-8b", 8030261248},
  };
  TESSERA_SKIP_WITHOUT(test::shared_data("data/configs"));
  for (const auto& [name, count] : expected) {
    const auto path = test::shared_data("data/configs/" + name + ".config.json");
    testing::internal::CaptureStderr();
    EXPECT_EQ(parameter_table(read_model_spec(path)).num_elements(), count) << name;
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << name << " has no unknown fields";
  }
}

TEST(Config, RefusesTheOtherRealModelsByName) {
  TESSERA_SKIP_WITHOUT(test::shared_data("data/configs"));
  const std::map<std::string, std::string> expected = {
      {"aic_nvidia--Nemotron-H-56B-Base-8K", "'nemotron_h' is not supported"},
      {"mlc_deepseek_v2_lite", "'deepseek_v2' is not supported"},
      {"mlc_gpt_j", "'gptj' is not supported"},
      {"mlc_phi-2", "'phi-msft' is not supported"},
      {"mlc_redpajama_3b_v1", "'gpt_neox' is not supported"},
      {"mlc_starcoder2", "'starcoder2' is not supported"},
  };
  for (const auto& [name, message] : expected) {
    const auto path = test::shared_data("data/configs/" + name + ".config.json");
    // DeepSeek's and Nemotron's own files hold Infinity or the like; they still must be refused for what they are.
    EXPECT_THAT(test::error_of([&] { read_model_spec(path); }), HasSubstr(name.find("Nemotron") == std::string::npos ? message : "error")) << name;
  }
}

TEST(Config, ReadsBothSpellingsOfRotarySettings) {
  Json older = small_llama(), newer = small_llama();
  older["rope_theta"] = 500000.0;
  older["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  newer["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 500000.0}};
  for (const Json& config : {older, newer}) {
    const RopeSpec rope = spec_of(config).ropes.at(0);
    EXPECT_EQ(rope.kind, RopeKind::Linear);
    EXPECT_EQ(rope.theta, 500000.0);
    EXPECT_EQ(rope.factor, 4.0);
    EXPECT_EQ(rope.rotary_dim, 4);
  }
}

TEST(Config, LongropeTakesItsFactorFromTheLengths) {
  Json config = small_llama();
  config["model_type"] = "phi3";
  config["max_position_embeddings"] = 256;
  config["original_max_position_embeddings"] = 64;
  config["rope_scaling"] = {{"type", "su"}, {"short_factor", {1.0, 1.5}}, {"long_factor", {2.0, 3.0}}};
  const RopeSpec rope = spec_of(config).ropes.at(0);
  EXPECT_EQ(rope.kind, RopeKind::Longrope);
  EXPECT_EQ(rope.factor, 4.0);
  EXPECT_EQ(rope.original_max_position_embeddings, 64);
  config["rope_scaling"]["short_factor"] = {1.0};
  EXPECT_THAT(error_of_config(config), HasSubstr("short_factor has 1 entries, not 2"));
}

TEST(Config, Gemma3HasTwoSetsOfFrequencies) {
  Json config = small_llama();
  config["model_type"] = "gemma3_text";
  config["num_hidden_layers"] = 7;
  config["num_key_value_heads"] = 2;
  config["head_dim"] = 8;
  config["rope_local_base_freq"] = 5000;
  config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  const ModelSpec older = spec_of(config);
  config.erase("rope_local_base_freq");
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5000.0}}}};
  const ModelSpec newer = spec_of(config);
  for (const ModelSpec& spec : {older, newer}) {
    ASSERT_EQ(spec.ropes.size(), 2u);
    for (std::size_t layer = 0; layer < 7; ++layer) {
      const RopeSpec& rope = spec.ropes[spec.layers[layer].rope];
      EXPECT_EQ(spec.layers[layer].sliding_window.has_value(), layer != 5) << layer;
      EXPECT_EQ(rope.theta, layer == 5 ? 1e6 : 5000.0);
      EXPECT_EQ(rope.kind, layer == 5 ? RopeKind::Linear : RopeKind::Default);
    }
    EXPECT_EQ(spec.embedding_multiplier, 4.0);
    EXPECT_EQ(spec.norm_weight_offset, 1.0);
  }
  // One set for all layers would be left unread.
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  EXPECT_THAT(error_of_config(config), HasSubstr("rope_parameters has a field 'factor'"));
  config["rope_parameters"] = "yarn";
  config["rope_scaling"] = {1};
  EXPECT_THAT(error_of_config(config), AllOf(HasSubstr("rope_parameters is not an object"), HasSubstr("rope_scaling is not an object")));
}

TEST(Config, QwenSlidesOnlyWhenToldTo) {
  Json config = small_llama();
  config["model_type"] = "qwen2";
  config["sliding_window"] = 9;
  config["max_window_layers"] = 1;
  EXPECT_FALSE(spec_of(config).layers[2].sliding_window);
  config["use_sliding_window"] = true;
  EXPECT_FALSE(spec_of(config).layers[0].sliding_window);
  EXPECT_EQ(spec_of(config).layers[1].sliding_window, 9);
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  EXPECT_EQ(spec_of(config).layers[0].sliding_window, 9);
  EXPECT_FALSE(spec_of(config).layers[1].sliding_window);
  config["layer_types"] = {"sliding_attention", "chunked_attention", "full_attention"};
  EXPECT_THAT(error_of_config(config), HasSubstr("layer_types \"chunked_attention\" is not supported"));
  config["layer_types"] = {"full_attention"};
  EXPECT_THAT(error_of_config(config), HasSubstr("each of the 3 layers"));
}

/// Qwen2MoeConfig: every second layer below max_window_layers.
TEST(Config, Qwen2MoeSlidesEverySecondLowerLayer) {
  Json config = read_config_json(test::test_data("goldens/qwen2_moe"));
  config.update({{"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 3}, {"num_hidden_layers", 6}});
  config.erase("layer_types");
  std::vector<bool> sliding;
  for (const LayerSpec& layer : spec_of(config).layers) sliding.push_back(layer.sliding_window == 9);
  EXPECT_THAT(sliding, testing::ElementsAre(true, false, true, false, false, false));
}

/// Qwen2MoeDecoderLayer: (layer + 1) % decoder_sparse_step == 0, and not of mlp_only_layers.
TEST(Config, SparseStepsCountFromOne) {
  Json config = read_config_json(test::test_data("goldens/qwen2_moe"));
  config.update({{"decoder_sparse_step", 2}, {"mlp_only_layers", {3}}, {"num_hidden_layers", 6}});
  config.erase("layer_types");
  std::vector<bool> experts;
  for (const LayerSpec& layer : spec_of(config).layers) experts.push_back(layer.experts);
  EXPECT_THAT(experts, testing::ElementsAre(false, true, false, false, false, true));
}

TEST(Config, Glm4MoeNormalisesHeadsWhenToldTo) {
  Json config = read_config_json(test::test_data("goldens/glm4_moe"));
  const auto num_head_norms = [&] {
    return std::ranges::count_if(parameter_table(spec_of(config)).parameters, [](const ParameterSpec& parameter) {
      return parameter.name.ends_with("query_norm.weight") || parameter.name.ends_with("key_norm.weight");
    });
  };
  EXPECT_EQ(num_head_norms(), 4) << "two layers";
  config["use_qk_norm"] = false;
  EXPECT_EQ(num_head_norms(), 0);
}

TEST(Config, WithoutAWindowInTheFileMistralSlidesAsItsConfigurationClass) {
  Json config = small_llama();
  config["model_type"] = "mistral";
  config["num_key_value_heads"] = 4;
  EXPECT_EQ(spec_of(config).layers[0].sliding_window, 4096);
  config["sliding_window"] = nullptr;
  EXPECT_FALSE(spec_of(config).layers[0].sliding_window);
}

TEST(Config, Gpt2TakesEitherNameOfASize) {
  Json config = {{"model_type", "gpt2"},   {"vocab_size", 32},         {"hidden_size", 16},
                 {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"n_positions", 8}};
  const ModelSpec spec = spec_of(config);
  EXPECT_EQ(spec.hidden_size, 16);
  EXPECT_EQ(spec.intermediate_size, 64);
  EXPECT_EQ(spec.residual_dropout, 0.1);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_DOUBLE_EQ(spec.attention_scale, 0.5);
  config["scale_attn_weights"] = false;
  EXPECT_DOUBLE_EQ(spec_of(config).attention_scale, 1.0);
  config["scale_attn_by_inverse_layer_idx"] = true;
  EXPECT_DOUBLE_EQ(spec_of(config).layers[0].attention_scale_factor, 1.0);
  EXPECT_DOUBLE_EQ(spec_of(config).layers[1].attention_scale_factor, 0.5);
}

TEST(Config, ReportsEveryMistakeAtOnceWithItsLine) {
  test::TemporaryDirectory directory;
  test::write_file(directory / "config.json", R"({
  "model_type": "llama",
  "vocab_size": 32,
  "hidden_size": 18,
  "intermediate_size": -1,
  "num_attention_heads": 4,
  "num_key_value_heads": 3,
  "hidden_act": "relu6",
  "quantization_config": {"quant_method": "gptq"},
  "rope_scaling": {"rope_type": "mrope"},
  "attention_dropout": "none"
})");
  const std::string error = test::error_of([&] { read_model_spec(directory.path()); });
  EXPECT_THAT(error, AllOf(HasSubstr("config.json:4: hidden_size (18) is not a multiple of num_attention_heads (4)"),
                           HasSubstr("config.json:5: intermediate_size is -1"), HasSubstr("num_hidden_layers is missing"),
                           HasSubstr("config.json:7: num_key_value_heads (3) does not divide"),
                           HasSubstr("config.json:8: hidden_act: \"relu6\" is not supported")));
  EXPECT_THAT(error,
              AllOf(HasSubstr("config.json:9: quantization_config"), HasSubstr("config.json:10: rope_scaling.rope_type: \"mrope\" is not supported"),
                    HasSubstr("config.json:11: attention_dropout")));
}

/// The mistakes in a configuration.
std::vector<Problem> problems_of(const Json& config) {
  try {
    spec_of(config);
  } catch (const UserError& error) {
    return error.problems();
  }
  return {};
}

TEST(Config, OneWrongFieldGivesOneErrorWhichNamesIt) {
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::test_data("goldens"))) {
    const Json config = read_config_json(entry.path());
    for (const auto& [key, value] : config.items()) {
      if (!value.is_number()) continue;
      for (const Json& wrong : {Json(-1), Json(0), Json("many"), Json(1e12)}) {
        Json changed = config;
        changed[key] = wrong;
        const std::vector<Problem> problems = problems_of(changed);
        ASSERT_LE(problems.size(), 1U) << entry.path() << ": " << key << " " << wrong << "\n" << UserError(problems).what();
        if (problems.empty()) continue;
        EXPECT_THAT(problems[0].what, HasSubstr(key)) << entry.path() << ": " << wrong;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 200);
}

TEST(Config, SaysWhichKindOfUnsupportedAModelTypeIs) {
  const auto error_of_type = [](const std::string& type) {
    Json config = small_llama();
    config["model_type"] = type;
    return error_of_config(config);
  };
  EXPECT_THAT(error_of_type("falcon"), AllOf(HasSubstr("'falcon' is not supported"), Not(HasSubstr("yet"))));
  EXPECT_THAT(error_of_type("gemma3"), HasSubstr("gemma3_text"));
  EXPECT_THAT(error_of_type("lama"), AllOf(HasSubstr("'lama' is unknown"), HasSubstr("did you mean llama"),
                                           HasSubstr("supported: deepseek_v3, gemma2, gemma3_text, glm4_moe")));
  EXPECT_THAT(error_of_config(Json::object()), HasSubstr("model_type is missing"));
}

TEST(Config, WarnsAboutUnknownFieldsUnlessTheyAreOff) {
  Json config = small_llama();
  config["strange_gate"] = 3;
  config["other_gate"] = false;
  config["third_gate"] = nullptr;
  config["use_cache"] = true;
  testing::internal::CaptureStderr();
  spec_of(config);
  const std::string output = testing::internal::GetCapturedStderr();
  EXPECT_THAT(output, HasSubstr("strange_gate"));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1);
}

TEST(Config, RefusesKnownFieldsThatWouldChangeTheMathematics) {
  for (const auto& [key, value] : std::map<std::string, Json>{{"mlp_bias", true},
                                                              {"attn_logit_softcapping", 50.0},
                                                              {"partial_rotary_factor", 0.5},
                                                              {"use_bidirectional_attention", true},
                                                              {"residual_multiplier", 0.5}}) {
    Json config = small_llama();
    config["model_type"] = "mistral";
    config["num_key_value_heads"] = 4;
    config[key] = value;
    EXPECT_THAT(error_of_config(config), AllOf(HasSubstr(key), HasSubstr("not supported"))) << key;
  }
  Json config = small_llama();
  config["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}}}};
  EXPECT_THAT(error_of_config(config), HasSubstr("one set of rotary frequencies"));
}

/// A field is blamed where it stands, and only when it is there.
TEST(Config, WhatMakesAnOddNumberOfRotatedDimensionsIsNamed) {
  const auto with = [](const Json& fields) {
    Json config = small_llama();
    config.update(fields);
    return error_of_config(config);
  };
  EXPECT_THAT(with({{"partial_rotary_factor", 1.5}}), HasSubstr(": partial_rotary_factor is 1.5, not a share of the head"));
  EXPECT_THAT(with({{"partial_rotary_factor", 0.5}}), HasSubstr(": partial_rotary_factor: 0.5 is not supported"));
  EXPECT_THAT(with({{"rope_parameters", {{"partial_rotary_factor", 1.5}}}}), HasSubstr(": rope_parameters.partial_rotary_factor is 1.5"));
  EXPECT_THAT(with({{"head_dim", 15}}), AllOf(HasSubstr(": head_dim makes heads of 15 dimensions, 15 of them rotated"), Not(HasSubstr("partial"))));
  EXPECT_THAT(with({{"hidden_size", 60}, {"num_attention_heads", 4}}), HasSubstr(": hidden_size makes heads of 15 dimensions"));
}

/// Who sets a field over a file's is told there what it does not go with.
TEST(Config, AContradictionStandsWhereAFieldWasOverridden) {
  Json config = small_llama();
  config["num_attention_heads"] = 5;
  const auto place = [&](const std::string& overridden) {
    return test::error_of([&] {
      model_spec_from_json(config, "config.json", [&](const std::string& key) {
        return key == overridden ? "r.yaml:7" : key.empty() ? "config.json" : "config.json:" + std::to_string(key.size());
      });
    });
  };
  EXPECT_THAT(place("num_attention_heads"), HasSubstr("error: r.yaml:7: hidden_size (16) is not a multiple of num_attention_heads (5)"));
  EXPECT_THAT(place("vocab_size"), HasSubstr("error: config.json:11: hidden_size (16)"));
}

TEST(Config, MissingFilesAndBrokenJson) {
  test::TemporaryDirectory directory;
  EXPECT_THAT(test::error_of([&] { read_model_spec(directory.path()); }), HasSubstr("has no config.json"));
  test::write_file(directory / "config.json", "{\n \"model_type\": ");
  EXPECT_THAT(test::error_of([&] { read_model_spec(directory.path()); }), HasSubstr("config.json:2"));
  test::write_file(directory / "config.json", "[]");
  EXPECT_THAT(test::error_of([&] { read_model_spec(directory.path()); }), HasSubstr("a JSON object"));
}

}  // namespace
}  // namespace tessera::model
