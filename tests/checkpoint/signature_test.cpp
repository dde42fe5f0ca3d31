#include "tessera/checkpoint/signature.h"

#include <gmock/gmock.h>

#include <functional>

#include "optim/small_table.h"
#include "support/support.h"
#include "tessera/core/error.h"

namespace tessera::checkpoint {
namespace {

model::ModelSpec small_spec() {
  model::ModelSpec spec;
  spec.model_type = "llama";
  spec.hidden_size = 5;
  return spec;
}

TEST(SignatureTest, TellsModelsApart) {
  const ModelSignature signature = model_signature(small_spec(), test::small_table());
  EXPECT_THAT(signature.description, testing::AllOf(testing::StartsWith("llama: 0 layers, hidden 5"), testing::HasSubstr("parameters")));
  model::ModelSpec wider = small_spec();
  wider.hidden_size = 6;
  EXPECT_NE(model_signature(wider, test::small_table()).hash, signature.hash);
  model::ParameterTable table = test::small_table();
  table.parameters[0].pieces[0].tensor_shape = {8, 5};
  EXPECT_NE(model_signature(small_spec(), table).hash, signature.hash);
}

/// A model that has everything a field can belong to.
model::ModelSpec full_spec() {
  model::ModelSpec spec = small_spec();
  spec.layers.resize(2);
  spec.ropes.emplace_back();
  spec.experts.emplace();
  spec.latent_attention.emplace();
  return spec;
}

struct Field {
  std::string name;
  std::function<void(model::ModelSpec&)> change;
};

std::vector<Field> numeric_fields() {
  using model::ModelSpec;
  std::vector<Field> fields{
      {"position", [](ModelSpec& s) { s.position = model::PositionKind::Learned; }},
      {"norm", [](ModelSpec& s) { s.norm = model::NormKind::Layer; }},
      {"norm_placement", [](ModelSpec& s) { s.norm_placement = model::NormPlacement::Sandwich; }},
      {"norm_eps", [](ModelSpec& s) { s.norm_eps = 1e-5; }},
      {"norm_weight_offset", [](ModelSpec& s) { s.norm_weight_offset = 1.0; }},
      {"query_key_norm", [](ModelSpec& s) { s.query_key_norm = model::QueryKeyNorm::Head; }},
      {"attention_scale", [](ModelSpec& s) { s.attention_scale = 0.5; }},
      {"attention_soft_cap", [](ModelSpec& s) { s.attention_soft_cap = 50.0; }},
      {"attention_sinks", [](ModelSpec& s) { s.attention_sinks = true; }},
      {"final_soft_cap", [](ModelSpec& s) { s.final_soft_cap = 30.0; }},
      {"feed_forward", [](ModelSpec& s) { s.feed_forward = model::FeedForwardKind::Plain; }},
      {"activation", [](ModelSpec& s) { s.activation = model::Activation::GeluTanh; }},
      {"embedding_multiplier", [](ModelSpec& s) { s.embedding_multiplier = 2.0; }},
      {"residual_multiplier", [](ModelSpec& s) { s.residual_multiplier = 2.0; }},
      {"logits_divisor", [](ModelSpec& s) { s.logits_divisor = 2.0; }},
      {"layers.sliding_window", [](ModelSpec& s) { s.layers[1].sliding_window = 8; }},
      {"layers.rope", [](ModelSpec& s) { s.layers[1].rope = 1; }},
      {"layers.attention_scale_factor", [](ModelSpec& s) { s.layers[1].attention_scale_factor = 2.0; }},
      {"latent_attention.nope_head_dim", [](ModelSpec& s) { s.latent_attention->nope_head_dim = 8; }},
      {"latent_attention.rope_head_dim", [](ModelSpec& s) { s.latent_attention->rope_head_dim = 8; }},
      {"latent_attention.norm_eps", [](ModelSpec& s) { s.latent_attention->norm_eps = 1e-5; }},
      {"latent_attention.interleaved_rope", [](ModelSpec& s) { s.latent_attention->interleaved_rope = false; }},
  };
  const auto rope = [&](const std::string& name, const std::function<void(model::RopeSpec&)>& change) {
    fields.push_back({"rope." + name, [change](ModelSpec& s) { change(s.ropes[0]); }});
  };
  rope("kind", [](model::RopeSpec& r) { r.kind = model::RopeKind::Linear; });
  rope("theta", [](model::RopeSpec& r) { r.theta = 5e5; });
  rope("factor", [](model::RopeSpec& r) { r.factor = 2.0; });
  rope("rotary_dim", [](model::RopeSpec& r) { r.rotary_dim = 2; });
  rope("low_freq_factor", [](model::RopeSpec& r) { r.low_freq_factor = 2.0; });
  rope("high_freq_factor", [](model::RopeSpec& r) { r.high_freq_factor = 2.0; });
  rope("beta_fast", [](model::RopeSpec& r) { r.beta_fast = 2.0; });
  rope("beta_slow", [](model::RopeSpec& r) { r.beta_slow = 2.0; });
  rope("truncate", [](model::RopeSpec& r) { r.truncate = false; });
  rope("attention_factor", [](model::RopeSpec& r) { r.attention_factor = 2.0; });
  rope("mscale", [](model::RopeSpec& r) { r.mscale = 2.0; });
  rope("mscale_all_dim", [](model::RopeSpec& r) { r.mscale_all_dim = 2.0; });
  rope("short_factor", [](model::RopeSpec& r) { r.short_factor = {2.0}; });
  rope("long_factor", [](model::RopeSpec& r) { r.long_factor = {2.0}; });
  const auto experts = [&](const std::string& name, const std::function<void(model::ExpertsSpec&)>& change) {
    fields.push_back({"experts." + name, [change](ModelSpec& s) { change(*s.experts); }});
  };
  experts("experts_per_token", [](model::ExpertsSpec& e) { e.experts_per_token = 3; });
  experts("shared_gate", [](model::ExpertsSpec& e) { e.shared_gate = true; });
  experts("scoring", [](model::ExpertsSpec& e) { e.scoring = model::RouterScoring::Sigmoid; });
  experts("normalize", [](model::ExpertsSpec& e) { e.normalize = true; });
  experts("scale", [](model::ExpertsSpec& e) { e.scale = 2.0; });
  experts("num_groups", [](model::ExpertsSpec& e) { e.num_groups = 2; });
  experts("groups_per_token", [](model::ExpertsSpec& e) { e.groups_per_token = 2; });
  experts("correction_bias", [](model::ExpertsSpec& e) { e.correction_bias = true; });
  experts("limit", [](model::ExpertsSpec& e) { e.limit = 7.0; });
  experts("alpha", [](model::ExpertsSpec& e) { e.alpha = 2.0; });
  experts("interleaved_gate", [](model::ExpertsSpec& e) { e.interleaved_gate = true; });
  return fields;
}

// Of the same tensors, each of these is another function.
TEST(SignatureTest, EveryFieldThatDecidesResultsIsComparedAndNamed) {
  const ModelSignature saved = model_signature(full_spec(), test::small_table());
  for (const Field& field : numeric_fields()) {
    model::ModelSpec spec = full_spec();
    field.change(spec);
    const ModelSignature ours = model_signature(spec, test::small_table());
    EXPECT_THAT(numeric_differences(saved, ours), testing::ElementsAre(testing::StartsWith(field.name + ": "))) << field.name;
    EXPECT_EQ(ours.hash, saved.hash) << field.name;
    EXPECT_THAT(test::error_of([&] { refuse_other_model("CK", saved, ours, false); }),
                testing::AllOf(testing::HasSubstr("CK: the model now computes otherwise\n    " + field.name), testing::HasSubstr("set it back")));
    refuse_other_model("CK", saved, ours, true);
  }
}

TEST(SignatureTest, ALengthThatIsOnlyALimitIsNotCompared) {
  const auto signature = [](model::RopeKind kind, std::int64_t length, std::int64_t original_length) {
    model::ModelSpec spec = full_spec();
    spec.max_position_embeddings = length;
    spec.ropes[0].kind = kind;
    spec.ropes[0].max_position_embeddings = length;
    spec.ropes[0].original_max_position_embeddings = original_length;
    return model_signature(spec, test::small_table());
  };
  using model::RopeKind;
  for (const RopeKind kind : {RopeKind::Default, RopeKind::Linear, RopeKind::Dynamic, RopeKind::Yarn, RopeKind::Longrope, RopeKind::Llama3}) {
    const bool of_length = kind == RopeKind::Dynamic, of_original = kind != RopeKind::Default && kind != RopeKind::Linear && !of_length;
    EXPECT_EQ(numeric_differences(signature(kind, 64, 32), signature(kind, 128, 32)).empty(), !of_length);
    EXPECT_EQ(numeric_differences(signature(kind, 64, 32), signature(kind, 64, 16)).empty(), !of_original);
  }
}

TEST(SignatureTest, OfAnEarlierVersionIsComparedByWhatItHas) {
  const ModelSignature ours = model_signature(full_spec(), test::small_table());
  Json json = to_json(ours);
  EXPECT_EQ(signature_from_json(json, "manifest.json"), ours);
  json.erase("numerics");
  const ModelSignature earlier = signature_from_json(json, "manifest.json");
  EXPECT_TRUE(numeric_differences(earlier, ours).empty());
  refuse_other_model("CK", earlier, ours, false);
}

TEST(SignatureTest, DoesNotDependOnPrecisionOrOnHowTensorsAreFused) {
  model::ModelSpec spec = small_spec();
  model::ParameterTable table = test::small_table();
  const ModelSignature signature = model_signature(spec, table);
  spec.dtype = DType::BF16;
  spec.attention_dropout = spec.residual_dropout = spec.embedding_dropout = 0.1;
  spec.initializer_range = 0.1;
  std::swap(table.parameters[0], table.parameters[2]);
  EXPECT_EQ(model_signature(spec, table), signature);
  EXPECT_EQ(signature_from_json(to_json(signature), "manifest.json"), signature);
}

}  // namespace
}  // namespace tessera::checkpoint
