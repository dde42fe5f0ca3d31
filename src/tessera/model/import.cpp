#include "tessera/model/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "tessera/core/error.h"
#include "tessera/formats/llama2c.h"
#include "tessera/model/adjusted_source.h"
#include "tessera/model/config.h"
#include "tessera/model/gguf_config.h"
#include "tessera/model/load.h"
#include "tessera/model/parameter_table.h"

namespace tessera::model {
namespace {

using formats::TensorSource;
using formats::TensorSpec;

/// llama.cpp's names for the modules that the family has.
TensorNames gguf_names(const TensorNames& family) {
  const auto if_present = [](const std::string& own, const std::string& name) { return own.empty() ? std::string() : name; };
  const std::string layer = "blk.{}.";
  TensorNames names;
  names.embedding = "token_embd";
  names.position_embedding = if_present(family.position_embedding, "position_embd");
  names.final_norm = "output_norm";
  names.head = "output";
  names.attention_norm = if_present(family.attention_norm, layer + "attn_norm");
  names.feed_forward_norm = if_present(family.feed_forward_norm, layer + "ffn_norm");
  names.attention_post_norm = if_present(family.attention_post_norm, layer + "post_attention_norm");
  names.feed_forward_post_norm = if_present(family.feed_forward_post_norm, layer + "post_ffw_norm");
  names.query = if_present(family.query, layer + "attn_q");
  names.key = if_present(family.key, layer + "attn_k");
  names.value = if_present(family.value, layer + "attn_v");
  names.query_key_value = if_present(family.query_key_value, layer + "attn_qkv");
  names.query_norm = if_present(family.query_norm, layer + "attn_q_norm");
  names.key_norm = if_present(family.key_norm, layer + "attn_k_norm");
  names.output = layer + "attn_output";
  names.gate = if_present(family.gate, layer + "ffn_gate");
  names.up = if_present(family.up, layer + "ffn_up");
  names.gate_up = if_present(family.gate_up, layer + "ffn_up");  // phi3's fused tensor
  names.down = layer + "ffn_down";
  return names;
}

/// llama.cpp rotates neighbouring pairs in these architectures, and its converter reorders the rows of q and k for it.
bool interleaves_rotary_pairs(const std::string& model_type) { return model_type == "llama" || model_type == "granite"; }

std::int64_t interleaved_heads(const ModelSpec& spec, const Piece& piece) {
  if (!interleaves_rotary_pairs(spec.model_type)) return 0;
  if (piece.tensor.find(".q_proj.") != std::string::npos) return spec.num_attention_heads;
  return piece.tensor.find(".k_proj.") != std::string::npos ? spec.num_key_value_heads : 0;
}

struct Mapping {
  std::vector<formats::MappedTensor> tensors;
  std::vector<Adjustment> adjustments;
};

/// The same table with either set of names, piece by piece.
Mapping map_tensors(const ModelSpec& spec) {
  ModelSpec other = spec;
  other.names = gguf_names(spec.names);
  const ParameterTable own_table = parameter_table(spec), gguf_table = parameter_table(other);
  Mapping mapping;
  for (std::size_t i = 0; i < own_table.parameters.size(); ++i) {
    const ParameterSpec& parameter = own_table.parameters[i];
    for (std::size_t j = 0; j < parameter.pieces.size(); ++j) {
      const Piece& piece = parameter.pieces[j];
      mapping.tensors.push_back({piece.tensor, gguf_table.parameters[i].pieces[j].tensor, interleaved_heads(spec, piece)});
      const bool plus_one = parameter.role == Role::Norm && spec.norm_weight_offset != 0.0;
      mapping.adjustments.push_back({.transposed = piece.transposed, .added = plus_one ? -spec.norm_weight_offset : 0.0});
    }
  }
  return mapping;
}

/// What the converter adds to describe rotary frequencies; gguf_config has read it.
bool is_rotary_table(const std::string& name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" || name == "rope_factors_short.weight";
}

void refuse_surplus(const TensorSource& source, const Mapping& mapping, bool tied_head) {
  std::set<std::string> used;
  for (const auto& tensor : mapping.tensors) used.insert(tensor.source_name);
  std::string surplus;
  for (const TensorSpec& tensor : source.tensors()) {
    const bool known = used.contains(tensor.name) || is_rotary_table(tensor.name) || (tied_head && tensor.name == "output.weight");
    if (!known) surplus += fmt::format("\n    {} {}", tensor.name, formats::shape_to_string(tensor.shape));
  }
  if (surplus.empty()) return;
  throw UserError({source.where(), "tensors that are not part of the model:" + surplus, "",
                   "the file holds another architecture than it says: convert the model again with a current llama.cpp"});
}

/// Whether the head, if there is one, repeats the embedding.
bool head_repeats_embedding(const TensorSource& source) {
  const TensorSpec* head = source.find("output.weight");
  const TensorSpec* embedding = source.find("token_embd.weight");
  if (head == nullptr) return true;
  if (embedding == nullptr || head->shape != embedding->shape || head->shape.size() != 2 || head->shape[1] == 0) return false;
  const std::int64_t step = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / head->shape[1]);
  std::vector<float> a(static_cast<std::size_t>(step * head->shape[1])), b(a.size());
  for (std::int64_t row = 0; row < head->shape[0]; row += step) {
    const std::int64_t rows = std::min(step, head->shape[0] - row);
    const std::size_t bytes = static_cast<std::size_t>(rows * head->shape[1]) * sizeof(float);
    source.read_rows(head->name, row, rows, DType::F32, std::as_writable_bytes(std::span(a)).first(bytes));
    source.read_rows(embedding->name, row, rows, DType::F32, std::as_writable_bytes(std::span(b)).first(bytes));
    if (std::memcmp(a.data(), b.data(), bytes) != 0) return false;
  }
  return true;
}

/// The narrowest dtype that holds every weight as it is: matrices decide, since norms are kept in F32 anyway.
DType lossless_dtype(const TensorSource& source) {
  std::set<DType> types;
  for (const TensorSpec& tensor : source.tensors()) {
    if (tensor.shape.size() > 1) types.insert(tensor.dtype);
  }
  return types.size() == 1 ? *types.begin() : DType::F32;
}

}  // namespace

ImportedModel import_gguf(const std::filesystem::path& path) {
  ImportedModel model;
  model.config = gguf_config(formats::GgufFile(path));
  auto source = formats::open_gguf_source(path);
  const bool tied = head_repeats_embedding(*source);
  model.config["tie_word_embeddings"] = tied;
  model.config["torch_dtype"] = torch_name(lossless_dtype(*source));
  const ModelSpec spec = model_spec_from_json(model.config, path.string());
  Mapping mapping = map_tensors(spec);
  refuse_surplus(*source, mapping, tied);
  auto renamed = formats::rename_tensors(std::move(source), std::move(mapping.tensors));
  model.weights = adjust_tensors(std::move(renamed), std::move(mapping.adjustments));
  check_weights(parameter_table(spec), *model.weights);
  return model;
}

ImportedModel import_llama2c(const std::filesystem::path& path) {
  const formats::Llama2cConfig header = formats::read_llama2c_header(path).config;
  ImportedModel model;
  // The format leaves these constants to run.c.
  model.config = {{"architectures", {"LlamaForCausalLM"}},
                  {"model_type", "llama"},
                  {"hidden_act", "silu"},
                  {"hidden_size", header.hidden_size},
                  {"intermediate_size", header.intermediate_size},
                  {"num_hidden_layers", header.num_hidden_layers},
                  {"num_attention_heads", header.num_attention_heads},
                  {"num_key_value_heads", header.num_key_value_heads},
                  {"vocab_size", header.vocab_size},
                  {"max_position_embeddings", header.max_position_embeddings},
                  {"tie_word_embeddings", header.tie_word_embeddings},
                  {"rms_norm_eps", 1e-5},
                  {"rope_theta", 10000.0},
                  {"bos_token_id", 1},
                  {"eos_token_id", 2},
                  {"torch_dtype", "float32"}};
  model.weights = formats::open_llama2c_source(path);
  check_weights(parameter_table(model_spec_from_json(model.config, path.string())), *model.weights);
  return model;
}

}  // namespace tessera::model
