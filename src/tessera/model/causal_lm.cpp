#include "tessera/model/causal_lm.h"

#include "tessera/formats/tensor_source.h"
#include "tessera/model/config.h"
#include "tessera/model/initialize.h"
#include "tessera/model/load.h"

namespace tessera::model {
namespace {

/// `source`: where the weights will come from, if not from random numbers.
CausalLM make(const ModelSpec& spec, const CausalLMOptions& options, LayerShare share, const formats::TensorSource* source) {
  ParameterTable table = share.table ? std::move(*share.table) : parameter_table(spec);
  ParameterStore::Options kept{.compute_dtype = options.dtype.value_or(default_compute_dtype(spec)),
                               .trainable = options.trainable,
                               .frozen = options.frozen,
                               .full_precision = options.full_precision,
                               .placement = options.placement,
                               .expert_placement = options.expert_placement};
  if (source != nullptr && !options.trainable && kept.compute_dtype == DType::F32) kept.kept_in_bfloat16 = matrices_in_bfloat16(table, *source);
  auto store = std::make_unique<ParameterStore>(std::move(table), std::move(kept));
  const ModelSpec& own = share.spec ? *share.spec : spec;
  if (options.attention) share.seams.attention = options.attention(own);
  auto decoder = std::make_unique<Decoder>(own, *store, options.decoder, std::move(share.seams));
  return {spec, std::move(store), std::move(decoder)};
}

}  // namespace

DType default_compute_dtype(const ModelSpec& spec) { return spec.dtype == DType::BF16 ? DType::BF16 : DType::F32; }

CausalLM CausalLM::from_pretrained(const std::filesystem::path& directory, const CausalLMOptions& options) {
  return from_pretrained(directory, read_model_spec(directory), options);
}

CausalLM CausalLM::from_pretrained(const std::filesystem::path& directory, const ModelSpec& spec, const CausalLMOptions& options, LayerShare share) {
  const auto source = formats::open_huggingface_source(directory);
  CausalLM model = make(spec, options, std::move(share), source.get());
  load_weights(*model.store, *source);
  return model;
}

CausalLM CausalLM::from_config(const ModelSpec& spec, std::uint64_t seed, const CausalLMOptions& options, LayerShare share) {
  CausalLM model = make(spec, options, std::move(share), nullptr);
  initialize_weights(*model.store, seed);
  return model;
}

}  // namespace tessera::model
