#include "tessera/model/convert.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "formats/gguf_builder.h"
#include "model/checkpoint_files.h"
#include "model/goldens.h"
#include "support/support.h"
#include "tessera/core/error.h"
#include "tessera/model/config.h"
#include "tessera/model/import.h"
#include "tessera/model/parameter_table.h"

namespace tessera::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint32_t kFloat32 = 6;  // GGUF's value types
constexpr std::uint32_t kBool = 7;
constexpr std::uint32_t kGgmlF32 = 0;

/// A golden written as llama.cpp's converter would write it; tests change fields before build.
struct GgufModel {
  std::string architecture;
  std::map<std::string, double> numbers;  ///< under the architecture's prefix; whole ones become integers
  std::map<std::string, std::string> texts;
  std::map<std::string, bool> flags;
  std::vector<std::string> tokens;
  test::FloatTensors tensors;

  std::string build() const {
    test::GgufBuilder builder;
    builder.add_string("general.architecture", architecture);
    for (const auto& [key, value] : numbers) {
      const std::string name = architecture + "." + key;
      const bool integer = value == std::floor(value) && key.find("freq_base") == std::string::npos && key.find("scale") == std::string::npos;
      if (integer) {
        builder.add_u32(name, static_cast<std::uint32_t>(value));
      } else {
        builder.add_raw(name, kFloat32, test::GgufBuilder::bytes(static_cast<float>(value)));
      }
    }
    for (const auto& [key, value] : texts) builder.add_string(architecture + "." + key, value);
    for (const auto& [key, value] : flags) builder.add_raw(architecture + "." + key, kBool, test::GgufBuilder::bytes(value));
    if (!tokens.empty()) builder.add_strings("tokenizer.ggml.tokens", tokens);
    builder.add_u32("tokenizer.ggml.bos_token_id", 1);
    builder.add_u32("tokenizer.ggml.eos_token_id", 2);
    for (const auto& [name, tensor] : tensors) {
      std::vector<std::uint64_t> dimensions(tensor.shape.rbegin(), tensor.shape.rend());
      builder.add_tensor(name, kGgmlF32, dimensions, std::string(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * 4));
    }
    return builder.build();
  }
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto position = text.find(from);
  return position == std::string::npos ? text : text.replace(position, from.size(), to);
}

/// Rows of each head: those of the first half between those of the second (llama.cpp's permutation).
test::FloatTensor interleave(const test::FloatTensor& tensor, std::int64_t heads) {
  test::FloatTensor result = tensor;
  const std::int64_t row = static_cast<std::int64_t>(tensor.values.size()) / tensor.shape[0], head_dim = tensor.shape[0] / heads;
  for (std::int64_t r = 0; r < tensor.shape[0]; ++r) {
    const std::int64_t within = r % head_dim, half = head_dim / 2;
    const std::int64_t to = r - within + (within < half ? 2 * within : 2 * (within - half) + 1);
    std::copy_n(tensor.values.begin() + r * row, row, result.values.begin() + to * row);
  }
  return result;
}

test::FloatTensor transpose(const test::FloatTensor& tensor) {
  test::FloatTensor result{{tensor.shape[1], tensor.shape[0]}, std::vector<float>(tensor.values.size())};
  for (std::int64_t r = 0; r < tensor.shape[0]; ++r) {
    for (std::int64_t c = 0; c < tensor.shape[1]; ++c) {
      result.values[static_cast<std::size_t>(c * tensor.shape[0] + r)] = tensor.values[static_cast<std::size_t>(r * tensor.shape[1] + c)];
    }
  }
  return result;
}

/// gguf-py's names (its tensor_mapping table) of transformers' modules.
std::string gguf_name(std::string name, bool sandwich) {
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"model.layers.", "blk."},
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", sandwich ? "post_attention_norm" : "ffn_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"transformer.wte", "token_embd"},
      {"transformer.wpe", "position_embd"},
      {"transformer.ln_f", "output_norm"},
      {"transformer.h.", "blk."},
      {"ln_1", "attn_norm"},
      {"ln_2", "ffn_norm"},
      {"attn.c_attn", "attn_qkv"},
      {"attn.c_proj", "attn_output"},
      {"mlp.c_fc", "ffn_up"},
      {"mlp.c_proj", "ffn_down"},
  };
  for (const auto& [from, to] : parts) name = replaced(name, from, to);
  return name;
}

GgufModel gguf_of(const std::string& name, const std::string& architecture) {
  const ModelSpec spec = read_model_spec(test::golden(name));
  GgufModel model;
  model.architecture = architecture;
  model.numbers = {{"embedding_length", spec.hidden_size},
                   {"feed_forward_length", spec.intermediate_size},
                   {"block_count", spec.num_layers()},
                   {"context_length", spec.max_position_embeddings},
                   {"attention.head_count", spec.num_attention_heads},
                   {"attention.head_count_kv", spec.num_key_value_heads},
                   {architecture == "gpt2" ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", spec.norm_eps}};
  if (architecture != "gpt2")
    model.numbers.insert({{"attention.key_length", spec.head_dim}, {"rope.freq_base", spec.ropes[0].theta}, {"rope.dimension_count", spec.head_dim}});
  for (const auto& [tensor, values] : test::read_floats(test::golden(name))) {
    test::FloatTensor& written = model.tensors[gguf_name(tensor, spec.norm_placement == NormPlacement::Sandwich)];
    written = values;
    if (architecture == "llama" && tensor.find("q_proj") != std::string::npos) written = interleave(values, spec.num_attention_heads);
    if (architecture == "llama" && tensor.find("k_proj") != std::string::npos) written = interleave(values, spec.num_key_value_heads);
    if (architecture == "gpt2" && values.shape.size() == 2 && tensor.find(".c_") != std::string::npos) written = transpose(values);
    if (spec.norm_weight_offset == 1.0 && values.shape.size() == 1) {
      for (float& value : written.values) value += 1.0F;
    }
  }
  return model;
}

void write_gguf(const std::filesystem::path& path, const GgufModel& model) { test::write_file(path, model.build()); }

std::filesystem::path converted(const test::TemporaryDirectory& directory, const GgufModel& model) {
  write_gguf(directory / "model.gguf", model);
  const auto operations = posix_file_operations();
  convert_model(*operations, {.source = directory / "model.gguf", .destination = directory / "converted", .dtype = {}, .files = {}});
  return directory / "converted";
}

void expect_same_weights(const std::filesystem::path& got, const std::filesystem::path& expected, float tolerance) {
  const test::FloatTensors a = test::read_floats(got), b = test::read_floats(expected);
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : b) {
    ASSERT_TRUE(a.contains(name)) << name;
    EXPECT_EQ(a.at(name).shape, tensor.shape) << name;
    float worst = 0.0F;
    for (std::size_t i = 0; i < tensor.values.size(); ++i) worst = std::max(worst, std::abs(a.at(name).values[i] - tensor.values[i]));
    EXPECT_LE(worst, tolerance) << name;
  }
}

/// The fields that must come back, whatever else the two files say.
void expect_same_spec(const ModelSpec& got, const ModelSpec& expected) {
  EXPECT_EQ(got.model_type, expected.model_type);
  EXPECT_EQ(got.head_dim, expected.head_dim);
  EXPECT_EQ(got.num_key_value_heads, expected.num_key_value_heads);
  EXPECT_EQ(got.tie_word_embeddings, expected.tie_word_embeddings);
  EXPECT_EQ(got.norm_eps, expected.norm_eps);
  EXPECT_EQ(got.attention_scale, expected.attention_scale);
  EXPECT_EQ(got.attention_soft_cap, expected.attention_soft_cap);
  EXPECT_EQ(got.final_soft_cap, expected.final_soft_cap);
  EXPECT_EQ(got.eos_token_ids, expected.eos_token_ids);
  ASSERT_EQ(got.ropes.size(), expected.ropes.size());
  for (std::size_t i = 0; i < got.ropes.size(); ++i) {
    EXPECT_EQ(got.ropes[i].kind, expected.ropes[i].kind);
    EXPECT_EQ(got.ropes[i].theta, expected.ropes[i].theta);
    EXPECT_EQ(got.ropes[i].long_factor, expected.ropes[i].long_factor);
    EXPECT_EQ(got.ropes[i].factor, expected.ropes[i].factor);
  }
  for (std::size_t i = 0; i < got.layers.size(); ++i) EXPECT_EQ(got.layers[i].sliding_window, expected.layers[i].sliding_window);
}

TEST(Convert, Qwen3FromGguf) {
  test::TemporaryDirectory directory;
  const auto result = converted(directory, gguf_of("qwen3", "qwen3"));
  expect_same_weights(result, test::golden("qwen3"), 0.0F);
  expect_same_spec(read_model_spec(result), read_model_spec(test::golden("qwen3")));
}

TEST(Convert, LlamaFromGgufUndoesThePermutation) {
  test::TemporaryDirectory directory;
  const auto result = converted(directory, gguf_of("llama_tied_llama3_rope", "llama"));
  expect_same_weights(result, test::golden("llama_tied_llama3_rope"), 0.0F);
}

TEST(Convert, Llama3FrequenciesAreRecognised) {
  test::TemporaryDirectory directory;
  GgufModel model = gguf_of("llama_tied_llama3_rope", "llama");
  // As the converter computes them for factor 8, low 1, high 4, original context 8192.
  test::FloatTensor divisors{{8}, {}};
  for (int i = 0; i < 8; ++i) {
    const double wavelength = 2.0 * M_PI * std::pow(500000.0, i / 8.0);
    const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
    divisors.values.push_back(wavelength < 2048.0 ? 1.0F : wavelength > 8192.0 ? 8.0F : static_cast<float>(1.0 / ((1.0 - smooth) / 8.0 + smooth)));
  }
  model.tensors["rope_freqs.weight"] = divisors;
  const RopeSpec rope = read_model_spec(converted(directory, model)).ropes[0];
  EXPECT_EQ(rope.kind, RopeKind::Llama3);
  EXPECT_EQ(rope.factor, 8.0);
  EXPECT_EQ(rope.original_max_position_embeddings, 8192);
  model.tensors["rope_freqs.weight"].values[3] = 5.0F;
  write_gguf(directory / "model.gguf", model);
  EXPECT_THAT(test::error_of([&] { import_gguf(directory / "model.gguf"); }), HasSubstr("rope_freqs.weight is not supported"));
}

TEST(Convert, Gpt2FromGgufIsTransposedBack) {
  test::TemporaryDirectory directory;
  const auto result = converted(directory, gguf_of("gpt2", "gpt2"));
  expect_same_weights(result, test::golden("gpt2"), 0.0F);
  expect_same_spec(read_model_spec(result), read_model_spec(test::golden("gpt2")));
}

TEST(Convert, AHeadThatRepeatsTheEmbeddingIsTied) {
  test::TemporaryDirectory directory;
  GgufModel model = gguf_of("gpt2", "gpt2");
  model.tensors["output.weight"] = model.tensors["token_embd.weight"];
  EXPECT_TRUE(read_model_spec(converted(directory, model)).tie_word_embeddings);
  model.tensors["output.weight"].values[0] += 1.0F;
  test::TemporaryDirectory other;
  const auto result = converted(other, model);
  EXPECT_FALSE(read_model_spec(result).tie_word_embeddings);
  EXPECT_TRUE(test::read_floats(result).contains("lm_head.weight"));
}

TEST(Convert, Gemma2FromGgufSubtractsOneFromItsNorms) {
  test::TemporaryDirectory directory;
  GgufModel model = gguf_of("gemma2", "gemma2");
  model.numbers.insert({{"attn_logit_softcapping", 20.0}, {"final_logit_softcapping", 10.0}, {"attention.sliding_window", 8.0}});
  const auto result = converted(directory, model);
  expect_same_weights(result, test::golden("gemma2"), 1.2e-7F);  // adding and subtracting one rounds
  expect_same_spec(read_model_spec(result), read_model_spec(test::golden("gemma2")));
}

TEST(Convert, Phi3FromGgufKeepsItsFusedTensorsAndLongrope) {
  test::TemporaryDirectory directory;
  GgufModel model = gguf_of("phi3_longrope", "phi3");
  model.tensors["rope_factors_long.weight"] = {{4}, {1.0F, 2.0F, 3.0F, 4.0F}};
  model.tensors["rope_factors_short.weight"] = {{4}, {1.0F, 1.1F, 1.2F, 1.3F}};
  model.numbers["rope.scaling.original_context_length"] = 16;
  const auto result = converted(directory, model);
  expect_same_weights(result, test::golden("phi3_longrope"), 0.0F);
  expect_same_spec(read_model_spec(result), read_model_spec(test::golden("phi3_longrope")));
}

TEST(Convert, RefusesGgufFilesItCannotCompute) {
  test::TemporaryDirectory directory;
  const auto error_of_import = [&](const std::function<void(GgufModel&)>& change) {
    GgufModel model = gguf_of("qwen3", "qwen3");
    change(model);
    write_gguf(directory / "model.gguf", model);
    return test::error_of([&] { import_gguf(directory / "model.gguf"); });
  };
  EXPECT_THAT(error_of_import([](GgufModel& m) { m.architecture = "mamba"; }),
              AllOf(HasSubstr("architecture 'mamba' is not supported"), HasSubstr("gemma2, gemma3")));
  EXPECT_THAT(error_of_import([](GgufModel& m) { m.numbers.erase("block_count"); }), HasSubstr("qwen3.block_count is missing"));
  EXPECT_THAT(error_of_import([](GgufModel& m) { m.tensors.erase("blk.1.ffn_up.weight"); }), HasSubstr("blk.1.ffn_up.weight"));
  EXPECT_THAT(error_of_import([](GgufModel& m) { m.tensors["blk.1.gate_inp.weight"] = {{1}, {0}}; }), HasSubstr("blk.1.gate_inp.weight [1]"));
  EXPECT_THAT(error_of_import([](GgufModel& m) { m.numbers["expert_count"] = 8; }), HasSubstr("qwen3.expert_count is not supported"));
  EXPECT_THAT(error_of_import([](GgufModel& m) { m.texts["rope.scaling.type"] = "mrope"; }),
              HasSubstr("qwen3.rope.scaling.type: mrope is not supported"));
  EXPECT_THAT(error_of_import([](GgufModel& m) { m.numbers.erase("attention.layer_norm_rms_epsilon"); }),
              HasSubstr("qwen3.attention.layer_norm_rms_epsilon is missing"));
  EXPECT_THAT(error_of_import([](GgufModel& m) { m.tokens.assign(10000, "a"); }), HasSubstr("tokenizer.ggml.tokens has 10000 tokens"));
  EXPECT_THAT(error_of_import([](GgufModel& m) { m.flags["attention.causal"] = false; }),
              HasSubstr("qwen3.attention.causal: false is not supported"));
  EXPECT_THAT(error_of_import([](GgufModel& m) { m.numbers["final_logit_softcapping"] = 30; }),
              HasSubstr("qwen3.final_logit_softcapping is not supported"));
}

/// llama.cpp's reading: a factor without a kind is linear, and so is what older files have.
TEST(Convert, GgufFactorsWithoutAKindOfRotaryScalingAreLinear) {
  for (const std::string key : {"rope.scaling.factor", "rope.scale_linear"}) {
    test::TemporaryDirectory directory;
    GgufModel model = gguf_of("qwen3", "qwen3");
    model.numbers[key] = 4.0;
    const RopeSpec rope = read_model_spec(converted(directory, model)).ropes[0];
    EXPECT_EQ(rope.kind, RopeKind::Linear) << key;
    EXPECT_EQ(rope.factor, 4.0) << key;
  }
}

TEST(Convert, SaysWhichGgufKeysItIgnores) {
  test::TemporaryDirectory directory;
  GgufModel model = gguf_of("qwen3", "qwen3");
  model.numbers.insert({{"vocab_size", 60}, {"attention.sink_count", 4}});
  write_gguf(directory / "model.gguf", model);
  testing::internal::CaptureStderr();
  import_gguf(directory / "model.gguf");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("qwen3.attention.sink_count is not known; it is ignored"), Not(HasSubstr("vocab_size"))));
}

TEST(Convert, BetweenHuggingFaceDirectories) {
  test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  std::filesystem::create_directory(directory / "source");
  for (const std::string file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(test::golden("qwen3") / file, directory / "source" / file);
  test::write_file(directory / "source/tokenizer.json", "{}");
  test::write_file(directory / "source/generation_config.json", "{\"eos_token_id\": 2}");
  const auto result = convert_model(*operations, {.source = directory / "source",
                                                  .destination = directory / "bf16/",
                                                  .dtype = DType::BF16,
                                                  .max_shard_size = 100000,
                                                  .files = {{"extra.txt", "more"}}});
  EXPECT_EQ(result.dtype, DType::BF16);
  EXPECT_EQ(read_model_spec(directory / "bf16").dtype, DType::BF16);
  EXPECT_EQ(test::read_file(directory / "bf16/tokenizer.json"), "{}");
  EXPECT_EQ(test::read_file(directory / "bf16/extra.txt"), "more");
  EXPECT_TRUE(std::filesystem::exists(directory / "bf16/model.safetensors.index.json"));
  EXPECT_TRUE(std::filesystem::exists(directory / "bf16/generation_config.json"));
  // Back again: every value is the rounded one.
  convert_model(*operations, {.source = directory / "bf16", .destination = directory / "again", .dtype = DType::F32, .files = {}});
  const auto expected = test::read_floats(test::golden("qwen3"));
  for (const auto& [name, tensor] : test::read_floats(directory / "again")) {
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      ASSERT_EQ(tensor.values[i], bfloat16_to_float(float_to_bfloat16(expected.at(name).values[i]))) << name;
    }
  }
}

TEST(Convert, TheDestinationIsWholeOrAbsent) {
  test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  EXPECT_THAT(test::error_of(
                  [&] { convert_model(*operations, {.source = test::golden("qwen3"), .destination = directory.path(), .dtype = {}, .files = {}}); }),
              HasSubstr("the destination exists already"));
  test::write_file(directory / "broken.gguf", "GGUF");
  EXPECT_NE(test::error_of([&] {
              convert_model(*operations, {.source = directory / "broken.gguf", .destination = directory / "out", .dtype = {}, .files = {}});
            }),
            "");
  // A file name that cannot be created, after the weights have been written.
  EXPECT_NE(test::error_of([&] {
              convert_model(*operations,
                            {.source = test::golden("qwen3"), .destination = directory / "out", .dtype = {}, .files = {{"no/such/folder.txt", ""}}});
            }),
            "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1) << "only broken.gguf is left";
}

TEST(Convert, RecognisesFormats) {
  test::TemporaryDirectory directory;
  test::write_file(directory / "a.gguf", "GGUF....");
  test::write_file(directory / "b.bin", "....");
  test::write_file(directory / "c.txt", "....");
  EXPECT_EQ(detect_model_format(directory / "a.gguf"), ModelFormat::Gguf);
  EXPECT_EQ(detect_model_format(directory / "b.bin"), ModelFormat::Llama2c);
  EXPECT_EQ(detect_model_format(test::golden("gpt2")), ModelFormat::HuggingFace);
  EXPECT_THAT(test::error_of([&] { detect_model_format(directory / "c.txt"); }), HasSubstr("neither a GGUF file nor"));
  EXPECT_THAT(test::error_of([&] { detect_model_format(directory.path()); }), HasSubstr("no config.json"));
  EXPECT_THAT(test::error_of([&] { detect_model_format(directory / "absent"); }), HasSubstr("no such file"));
}

TEST(Convert, Llama2c) {
  const auto source = test::shared_data("data/lm/stories260K.bin");
  TESSERA_SKIP_WITHOUT(source);
  test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  const auto result = convert_model(*operations, {.source = source, .destination = directory / "stories", .dtype = {}, .files = {}});
  const ModelSpec spec = read_model_spec(directory / "stories");
  EXPECT_EQ(result.dtype, DType::F32);
  EXPECT_EQ(spec.vocab_size, 512);
  EXPECT_EQ(spec.norm_eps, 1e-5);
  EXPECT_EQ(result.num_tensors, static_cast<std::int64_t>(test::read_floats(directory / "stories").size()));
}

}  // namespace
}  // namespace tessera::model
