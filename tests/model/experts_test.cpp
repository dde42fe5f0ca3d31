// Models of experts made of models that are known: a dense one, and one whose weights are not quantised.
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "model/checkpoint_files.h"
#include "model/goldens.h"
#include "model/rows.h"
#include "support/support.h"
#include "tessera/core/json.h"
#include "tessera/model/config.h"
#include "tessera/model/expert_feed_forward.h"

namespace tessera::model::test {
namespace {

namespace fs = std::filesystem;
using tessera::test::FloatTensor;
using tessera::test::FloatTensors;
using tessera::test::read_floats;
using tessera::test::TemporaryDirectory;

Json config_of(const std::string& name) { return Json::parse(tessera::test::read_file(test::golden(name) / "config.json")); }

FloatTensor random_floats(std::vector<std::int64_t> shape, unsigned seed) {
  FloatTensor tensor{.shape = std::move(shape), .values = {}};
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> numbers(-1.0F, 1.0F);
  tensor.values.resize(formats::num_elements(tensor.shape));
  for (float& value : tensor.values) value = numbers(generator);
  return tensor;
}

CausalLM load(const fs::path& directory, DType dtype, bool trainable) {
  return CausalLM::from_pretrained(directory, {.dtype = dtype, .trainable = trainable});
}

constexpr int kExperts = 4;

/// qwen3 whose every feed-forward has become kExperts equal experts behind a router that likes some of them better.
void write_upcycled(const fs::path& directory) {
  Json config = config_of("qwen3");
  config.merge_patch({{"model_type", "qwen3_moe"},
                      {"architectures", {"Qwen3MoeForCausalLM"}},
                      {"num_experts", kExperts},
                      {"num_experts_per_tok", 2},
                      {"norm_topk_prob", true},
                      {"moe_intermediate_size", config.at("intermediate_size")},
                      {"decoder_sparse_step", 1},
                      {"mlp_only_layers", Json::array()}});
  tessera::test::write_file(directory / "config.json", config.dump());
  FloatTensors tensors;
  for (const auto& [name, tensor] : read_floats(test::golden("qwen3"))) {
    const std::size_t mlp = name.find("mlp.");
    if (mlp == std::string::npos) {
      tensors.emplace(name, tensor);
      continue;
    }
    for (int expert = 0; expert < kExperts; ++expert)
      tensors.emplace(name.substr(0, mlp) + "mlp.experts." + std::to_string(expert) + name.substr(mlp + 3), tensor);
    tensors.emplace(name.substr(0, mlp) + "mlp.gate.weight",
                    random_floats({kExperts, config.at("hidden_size").get<std::int64_t>()}, static_cast<unsigned>(mlp)));
  }
  write_floats(directory, tensors);
}

/// Whose every layer is dense, whatever it says of experts.
TEST(Experts, AModelWithoutALayerOfThemHasNone) {
  Json config = config_of("qwen2_moe");
  EXPECT_TRUE(model_spec_from_json(config, "a test").experts);
  config["decoder_sparse_step"] = 100;
  EXPECT_FALSE(model_spec_from_json(config, "a test").experts);
}

TEST(Upcycling, EqualExpertsComputeWhatTheDenseModelDoes) {
  const TemporaryDirectory directory;
  write_upcycled(directory.path());
  CausalLM dense = load(test::golden("qwen3"), DType::F64, true), experts = load(directory.path(), DType::F64, true);
  const std::vector<Batch> batches{make_batch({document(17, 1), document(9, 2)}), make_batch({document(12, 3)})};
  const Pass expected = run(dense, batches), actual = run(experts, batches);
  EXPECT_NEAR(actual.loss, expected.loss, 1e-12 * expected.loss);
  // Each token's gradient reaches two experts by their weights, which sum to one: together they have the dense one's.
  for (std::size_t index = 0; index < dense.store->table().parameters.size(); ++index) {
    const std::string& name = dense.store->table().parameters[index].name;
    const bool feed_forward = name.ends_with("gate_up.weight") || name.ends_with("down.weight");
    const std::string twin = feed_forward ? name.substr(0, name.find('.', 7) + 1) + "experts." + name.substr(name.find('.', 7) + 1) : name;
    at::Tensor gradient = actual.gradients[experts.store->index_of(twin)];
    if (feed_forward) gradient = gradient.sum({0});
    const at::Tensor& dense_gradient = expected.gradients[index];
    EXPECT_LE((gradient.view_as(dense_gradient) - dense_gradient).abs().max().item<double>(), 1e-11 * dense_gradient.abs().max().item<double>())
        << name;
  }
}

/// Counts the operators that are recorded while tokens would travel.
class CountingDispatcher : public Dispatcher {
 public:
  ops::Variable operator()(ops::Tape& tape, const ops::Variable& tokens_ND, const Routing& routing, std::int64_t num_experts, const Experts& experts,
                           const std::function<void()>& meanwhile) override {
    return (*local_dispatcher())(tape, tokens_ND, routing, num_experts, experts, [&] {
      const std::size_t before = tape.size();
      if (meanwhile) meanwhile();
      num_meanwhile_ = tape.size() - before;
    });
  }
  std::size_t num_meanwhile() const { return num_meanwhile_; }

 private:
  std::size_t num_meanwhile_ = 0;
};

TEST(SharedExpert, IsComputedWhileTokensTravel) {
  for (const auto& [name, num_operators] : {std::pair{"qwen2_moe", 5U}, {"glm4_moe", 3U}, {"mixtral", 0U}}) {
    const CausalLM model = load(test::golden(name), DType::F32, true);
    const ModelSpec& spec = model.decoder->spec();
    const std::string layer = "layers." + std::to_string(spec.layers.size() - 1) + ".";
    const auto find = [&](const std::string& parameter) -> ops::Parameter* {
      const auto& all = model.store->table().parameters;
      const auto found = std::ranges::find(all, layer + parameter, &ParameterSpec::name);
      return found == all.end() ? nullptr : &model.store->parameter(static_cast<std::size_t>(found - all.begin()));
    };
    CountingDispatcher dispatcher;
    ops::Tape tape;
    const ops::Variable tokens = tape.variable(at::ones({3, spec.hidden_size}, at::kFloat));
    const RoutingOptions options;
    const SumOverRanks nobody;
    expert_feed_forward(tape, tokens, spec, find_expert_weights(find), dispatcher,
                        {.options = options, .row_N = {}, .sum_over_sequence = nobody, .sum_over_microbatch = nobody});
    EXPECT_EQ(dispatcher.num_meanwhile(), num_operators) << name;
  }
}

/// Bytes of a tensor as they are to be written.
struct Stored {
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

Stored stored(const FloatTensor& tensor) {
  const auto bytes = std::as_bytes(std::span(tensor.values));
  return {DType::F32, tensor.shape, {bytes.begin(), bytes.end()}};
}

/// A tensor as it is stored in parts, and the floats that they mean.
struct Quantised {
  std::map<std::string, Stored> parts;
  FloatTensor meant;
};

Quantised to_float8(const std::string& name, const FloatTensor& tensor, float scale) {
  const at::Tensor values = at::from_blob(const_cast<float*>(tensor.values.data()), tensor.shape, at::kFloat);
  // Within the range of the format: beyond it, libtorch 2.11 makes NaN of what later ones cut off.
  const at::Tensor eight = (values / scale).clamp(-448, 448).to(at::kFloat8_e4m3fn), meant = eight.to(at::kFloat) * scale;
  const auto* const bytes = static_cast<const std::byte*>(eight.data_ptr());
  return {{{name, {DType::F8_E4M3, tensor.shape, {bytes, bytes + eight.numel()}}}, {name + "_scale_inv", stored({{1, 1}, {scale}})}},
          {tensor.shape, {meant.data_ptr<float>(), meant.data_ptr<float>() + meant.numel()}}};
}

/// Random values of four bits for experts of [inputs, outputs], each group of 32 inputs with a scale of its own.
Quantised random_microscaled(const std::string& name, const std::vector<std::int64_t>& shape) {
  constexpr std::array<float, 16> kValues = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
  const std::int64_t num_experts = shape[0], inputs = shape[1], outputs = shape[2], groups = inputs / 32;
  Stored blocks{DType::U8, {num_experts, outputs, groups, 16}, std::vector<std::byte>(static_cast<std::size_t>(num_experts * inputs * outputs / 2))};
  Stored scales{DType::U8, {num_experts, outputs, groups}, {}};
  FloatTensor meant{shape, std::vector<float>(static_cast<std::size_t>(num_experts * inputs * outputs))};
  std::mt19937 generator(3);
  for (std::int64_t row = 0; row < num_experts * outputs; ++row) {
    for (std::int64_t input = 0; input < inputs; ++input) {
      if (input % 32 == 0) scales.bytes.push_back(static_cast<std::byte>(120 + generator() % 4));
      const auto code = generator() % 16;
      blocks.bytes[static_cast<std::size_t>((row * inputs + input) / 2)] |= static_cast<std::byte>(input % 2 == 0 ? code : code << 4U);
      meant.values[static_cast<std::size_t>((row / outputs * inputs + input) * outputs + row % outputs)] =
          std::ldexp(kValues[code], static_cast<int>(scales.bytes.back()) - 127);
    }
  }
  return {{{name + "_blocks", blocks}, {name + "_scales", scales}}, meant};
}

/// The golden with what `quantise` makes of some of its tensors: in one directory as it is stored, in the other as it is meant.
template <class Quantise>
void expect_same_weights(const std::string& name, const Json& quantization, const Quantise& quantise) {
  const TemporaryDirectory quantised, plain;
  FloatTensors meant;
  std::map<std::string, Stored> parts;
  std::size_t num_quantised = 0;
  for (const auto& [tensor_name, tensor] : read_floats(test::golden(name))) {
    std::optional<Quantised> made = quantise(tensor_name, tensor);
    num_quantised += made ? 1 : 0;
    if (!made) made = Quantised{{{tensor_name, stored(tensor)}}, tensor};
    meant.emplace(tensor_name, made->meant);
    parts.merge(made->parts);
  }
  EXPECT_GT(num_quantised, 1U);
  Json config = config_of(name);
  tessera::test::write_file(plain / "config.json", config.dump());
  write_floats(plain.path(), meant);
  config["quantization_config"] = quantization;
  tessera::test::write_file(quantised / "config.json", config.dump());
  std::vector<formats::TensorSpec> specs;
  for (const auto& [tensor_name, part] : parts) specs.push_back({tensor_name, part.dtype, part.shape});
  const auto operations = posix_file_operations();
  formats::SafetensorsWriter writer(*operations, quantised / "model.safetensors", specs);
  for (const formats::TensorInfo& tensor : writer.tensors()) writer.write(tensor.name, parts.at(tensor.name).bytes);
  writer.finish();

  const CausalLM read = load(quantised.path(), DType::F32, false), expected = load(plain.path(), DType::F32, false);
  for (std::size_t index = 0; index < expected.store->table().parameters.size(); ++index)
    EXPECT_TRUE(at::equal(read.store->parameter(index).weight, expected.store->parameter(index).weight)) << expected.store->parameter(index).name;
}

TEST(QuantisedCheckpoint, Float8InBlocksIsReadAsWhatItMeans) {
  float scale = 0.001F;
  expect_same_weights("deepseek_v3_yarn", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}},
                      [&](const std::string& name, const FloatTensor& tensor) -> std::optional<Quantised> {
                        if (!name.ends_with("_proj.weight")) return std::nullopt;
                        return to_float8(name, tensor, scale *= 1.01F);
                      });
}

TEST(QuantisedCheckpoint, MicroscaledExpertsAreReadAsWhatTheyMean) {
  expect_same_weights("gpt_oss", {{"quant_method", "mxfp4"}}, [](const std::string& name, const FloatTensor& tensor) -> std::optional<Quantised> {
    if (!name.ends_with("gate_up_proj")) return std::nullopt;
    return random_microscaled(name, tensor.shape);
  });
}

}  // namespace
}  // namespace tessera::model::test
