#include "tessera/model/load.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <gmock/gmock.h>

#include <fstream>

#include "model/checkpoint_files.h"
#include "model/goldens.h"
#include "support/support.h"
#include "tessera/core/memory.h"
#include "tessera/model/config.h"
#include "tessera/model/export.h"

namespace tessera::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kGoldens = {"llama_tied_llama3_rope", "gpt2", "gemma2", "qwen3", "phi3_longrope"};

at::Tensor as_tensor(const test::FloatTensor& tensor) {
  return at::from_blob(const_cast<float*>(tensor.values.data()), tensor.shape, at::TensorOptions().dtype(at::kFloat)).clone();
}

/// The golden's tensors, perhaps changed, loaded into a fresh store.
struct Changed {
  test::TemporaryDirectory directory;
  test::FloatTensors tensors;
  std::string name;

  explicit Changed(std::string name) : tensors(test::read_floats(test::golden(name))), name(std::move(name)) {}
  std::string error_of_load() {
    test::write_floats(directory.path(), tensors);
    ParameterStore store(test::table_of(name), {});
    return test::error_of([&] { load_weights(store, *formats::open_huggingface_source(directory.path())); });
  }
  void load() {
    test::write_floats(directory.path(), tensors);
    ParameterStore store(test::table_of(name), {});
    load_weights(store, *formats::open_huggingface_source(directory.path()));
    expect_equal(store);
  }
  void expect_equal(const ParameterStore& store) const {
    const CheckpointView view(store);
    for (const auto& [tensor, values] : test::read_floats(test::golden(name)))
      EXPECT_TRUE(at::equal(view.weight(tensor), as_tensor(values))) << tensor;
  }
};

TEST(Load, PutsEveryTensorInItsPlaceInEveryPrecision) {
  for (const std::string& name : kGoldens) {
    const test::FloatTensors expected = test::read_floats(test::golden(name));
    for (const DType dtype : {DType::F32, DType::BF16, DType::F64}) {
      for (const bool trainable : {true, false}) {
        SCOPED_TRACE(name + " " + std::string(to_string(dtype)));
        ParameterStore store(test::table_of(name), {.compute_dtype = dtype, .trainable = trainable, .frozen = {}});
        load_weights(store, *formats::open_huggingface_source(test::golden(name)));
        for (std::size_t i = 0; i < store.table().parameters.size(); ++i) {
          for (const Piece& piece : store.table().parameters[i].pieces) {
            const at::Tensor reference = as_tensor(expected.at(piece.tensor));
            const at::Tensor rounded = reference.to(store.parameter(i).weight.scalar_type());
            EXPECT_TRUE(at::equal(checkpoint_view(store.parameter(i).weight, piece), rounded)) << piece.tensor;
            if (trainable) {
              EXPECT_TRUE(at::equal(checkpoint_view(store.master(i), piece).to(at::kFloat), reference)) << piece.tensor;
            }
          }
        }
      }
    }
  }
}

TEST(Load, EveryDenseGolden) {
  TESSERA_SKIP_WITHOUT(test::shared_data("goldens"));
  for (const std::string name :
       {"llama", "llama_yarn_bias", "llama_deep_kv2", "qwen3_deep_kv1", "mistral_sliding", "qwen2", "olmo2", "gemma3", "granite"}) {
    const auto directory = test::shared_data("goldens/" + name);
    ParameterStore store(parameter_table(read_model_spec(directory)), {});
    load_weights(store, *formats::open_huggingface_source(directory));
    const CheckpointView view(store);
    for (const auto& [tensor, values] : test::read_floats(directory)) EXPECT_TRUE(at::equal(view.weight(tensor), as_tensor(values))) << tensor;
  }
}

TEST(Load, ReadsHalfPrecisionFiles) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    test::TemporaryDirectory directory;
    const test::FloatTensors tensors = test::read_floats(test::golden("qwen3"));
    test::write_floats(directory.path(), tensors, dtype);
    ParameterStore store(test::table_of("qwen3"), {});
    load_weights(store, *formats::open_huggingface_source(directory.path()));
    const auto narrow = dtype == DType::BF16 ? at::kBFloat16 : at::kHalf;
    const CheckpointView view(store);
    for (const auto& [name, tensor] : tensors) EXPECT_TRUE(at::equal(view.weight(name), as_tensor(tensor).to(narrow).to(at::kFloat))) << name;
  }
}

TEST(Load, AcceptsCheckpointsOfTheBareModel) {
  Changed changed("gpt2");
  test::FloatTensors bare;
  for (const auto& [name, tensor] : changed.tensors) bare[name.substr(std::string("transformer.").size())] = tensor;
  bare["h.0.attn.bias"] = {{2, 2}, {1, 0, 1, 1}};
  bare["h.0.attn.masked_bias"] = {{1}, {-1e4F}};
  changed.tensors = bare;
  changed.load();
}

TEST(Load, AcceptsATiedHeadThatRepeatsTheEmbedding) {
  Changed changed("llama_tied_llama3_rope");
  changed.tensors["lm_head.weight"] = changed.tensors["model.embed_tokens.weight"];
  changed.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{2}, {1, 2}};
  changed.load();
  changed.tensors["lm_head.weight"].values[7] += 1.0F;
  EXPECT_THAT(changed.error_of_load(),
              AllOf(HasSubstr("lm_head.weight differs from model.embed_tokens.weight"), HasSubstr("tie_word_embeddings to false")));
}

TEST(Load, ListsEverythingThatIsWrongAtOnce) {
  Changed changed("qwen3");
  changed.tensors.erase("model.norm.weight");
  changed.tensors.erase("model.layers.3.mlp.up_proj.weight");
  changed.tensors["model.layers.9.mlp.up_proj.weight"] = {{2, 3}, std::vector<float>(6)};
  changed.tensors["extra"] = {{1}, {0}};
  changed.tensors["lm_head.weight"].shape = {64, 320};
  const std::string error = changed.error_of_load();
  EXPECT_THAT(
      error, AllOf(HasSubstr("2 tensors are missing"), HasSubstr("model.norm.weight [64]"), HasSubstr("model.layers.3.mlp.up_proj.weight [96, 64]")));
  EXPECT_THAT(error,
              AllOf(HasSubstr("2 tensors are not part of the model"), HasSubstr("model.layers.9.mlp.up_proj.weight [2, 3]"), HasSubstr("extra [1]")));
  EXPECT_THAT(error, HasSubstr("lm_head.weight: [64, 320] in the file, [320, 64] in the model"));
}

TEST(Load, RefusesTypesThatDoNotConvert) {
  test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  std::vector<formats::TensorSpec> specs;
  for (const auto& [name, tensor] : test::read_floats(test::golden("qwen3"))) {
    specs.push_back({name, name == "model.norm.weight" ? DType::F8_E4M3 : DType::BF16, tensor.shape});
  }
  formats::SafetensorsWriter writer(*operations, directory / "model.safetensors", specs);
  for (const auto& info : writer.tensors()) writer.write(info.name, std::vector<std::byte>(info.num_bytes()));
  writer.finish();
  EXPECT_THAT(test::error_of([&] { check_weights(test::table_of("qwen3"), *formats::open_huggingface_source(directory.path())); }),
              AllOf(HasSubstr("1 tensor is of a type that is not supported"), HasSubstr("model.norm.weight F8_E4M3"), Not(HasSubstr("missing"))));
}

/// Forgets the peak so far (Linux).
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

TEST(Load, NeedsLittleMoreMemoryThanWhatStays) {
  ModelSpec spec = read_model_spec(test::golden("llama_tied_llama3_rope"));
  spec.vocab_size = 16000;
  spec.hidden_size = 1024;
  spec.intermediate_size = 4096;
  spec.layers.resize(2);
  const ParameterTable table = parameter_table(spec);
  test::TemporaryDirectory directory;
  const auto operations = posix_file_operations();
  std::vector<formats::TensorSpec> specs;
  for (const ParameterSpec& parameter : table.parameters) {
    for (const Piece& piece : parameter.pieces) specs.push_back({piece.tensor, DType::F32, piece.tensor_shape});
  }
  {
    formats::SafetensorsWriter writer(*operations, directory / "model.safetensors", specs);
    const std::vector<std::byte> block(1 << 20, std::byte{1});
    for (const auto& info : writer.tensors()) {
      for (std::uint64_t done = 0; done < info.num_bytes(); done += block.size()) {
        writer.write(info.name, std::span(block).first(std::min<std::uint64_t>(block.size(), info.num_bytes() - done)));
      }
    }
    writer.finish();
  }
  reset_peak();
  const std::uint64_t before = test::resident_bytes();
  ParameterStore store(table, {.compute_dtype = DType::F32, .trainable = false, .frozen = {}});
  load_weights(store, *formats::open_huggingface_source(directory.path()));
  const auto grown = static_cast<double>(peak_resident_bytes() - before);
  const auto kept = static_cast<double>(table.num_elements()) * 4.0;
  ASSERT_GT(kept, 150e6);
  EXPECT_LE(grown, 1.1 * kept) << "kept " << kept / 1e6 << " MB";
}

}  // namespace
}  // namespace tessera::model
