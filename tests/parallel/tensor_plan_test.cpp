#include "tessera/parallel/tensor/plan.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tessera/model/config.h"

namespace tessera::parallel {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

model::ModelSpec llama(bool tied = false) {
  return model::model_spec_from_json(Json{{"model_type", "llama"},
                                          {"vocab_size", 60},
                                          {"hidden_size", 32},
                                          {"intermediate_size", 40},
                                          {"num_hidden_layers", 2},
                                          {"num_attention_heads", 8},
                                          {"num_key_value_heads", 4},
                                          {"tie_word_embeddings", tied}},
                                     "a test");
}

struct Result {
  TensorPlan plan;
  std::vector<std::string> problems;
};

Result read(const std::map<std::string, std::string>& tp_plan, const model::ModelSpec& spec = llama(), bool sequence_parallel = false) {
  ProblemList problems;
  Result result{tensor_plan(tp_plan, spec, sequence_parallel, "r.yaml:3", problems), {}};
  for (const Problem& problem : problems.problems()) result.problems.push_back(problem.what);
  return result;
}

TEST(TensorPlan, CutsEverythingUnlessTold) { EXPECT_EQ(read({}).plan, TensorPlan()); }

TEST(TensorPlan, ReadsHuggingFacesOwn) {
  const Result result = read({{"layers.*.self_attn.q_proj", "colwise"},
                              {"layers.*.self_attn.k_proj", "colwise"},
                              {"layers.*.self_attn.v_proj", "colwise"},
                              {"layers.*.self_attn.o_proj", "rowwise"},
                              {"model.layers.*.mlp.gate_proj", "colwise_gather_output"},
                              {"model.layers.*.mlp.up_proj", "colwise_gather_output"},
                              {"model.layers.*.mlp.down_proj", "rowwise_split_input"},
                              {"lm_head", "colwise_rep"}});
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_EQ(result.plan, (TensorPlan{.attention = true, .feed_forward = true, .embedding = false, .head = true}));
}

TEST(TensorPlan, WhatIsNotNamedIsWhole) {
  EXPECT_EQ(read({{"model.embed_tokens", "rowwise"}}).plan,
            (TensorPlan{.attention = false, .feed_forward = false, .embedding = true, .head = false}));
  EXPECT_EQ(read({{"model.norm", "replicate"}}).plan, (TensorPlan{.attention = false, .feed_forward = false, .embedding = false, .head = false}));
}

TEST(TensorPlan, ExpertsArePrintedOnce) {
  Json config = {{"model_type", "mixtral"},  {"vocab_size", 60},       {"hidden_size", 32},
                 {"intermediate_size", 40},  {"num_hidden_layers", 2}, {"num_attention_heads", 8},
                 {"num_key_value_heads", 4}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}};
  const std::vector<std::string> lines = describe({}, model::model_spec_from_json(config, "a test"), 2, false);
  EXPECT_EQ(std::ranges::count_if(lines, [](const std::string& line) { return line.find(".experts.*.w1") != std::string::npos; }), 1);
  EXPECT_THAT(lines, Contains(HasSubstr("replicate: for this rank's tokens")));
}

/// transformers' base_model_tp_plan of qwen3_moe and of gpt_oss, as they stand.
TEST(TensorPlan, ReadsHuggingFacesOwnOfModelsWithExperts) {
  const auto spec = [](const char* type) {
    return model::model_spec_from_json(Json{{"model_type", type},
                                            {"vocab_size", 60},
                                            {"hidden_size", 32},
                                            {"intermediate_size", 40},
                                            {"moe_intermediate_size", 24},
                                            {"num_hidden_layers", 2},
                                            {"num_attention_heads", 8},
                                            {"num_key_value_heads", 4},
                                            {"head_dim", 4},
                                            {"num_experts", 4},
                                            {"num_local_experts", 4},
                                            {"num_experts_per_tok", 2}},
                                       "a test");
  };
  const Result qwen = read({{"layers.*.self_attn.q_proj", "colwise"},
                            {"layers.*.self_attn.k_proj", "colwise"},
                            {"layers.*.self_attn.v_proj", "colwise"},
                            {"layers.*.self_attn.q_norm", "replicated_with_grad_allreduce"},
                            {"layers.*.self_attn.k_norm", "replicated_with_grad_allreduce"},
                            {"layers.*.self_attn.o_proj", "rowwise"},
                            {"layers.*.mlp.experts.gate_up_proj", "packed_colwise"},
                            {"layers.*.mlp.experts.down_proj", "rowwise"},
                            {"layers.*.mlp.experts", "moe_tp_experts"},
                            {"layers.*.mlp.gate_proj", "colwise"},
                            {"layers.*.mlp.up_proj", "colwise"},
                            {"layers.*.mlp.down_proj", "rowwise"}},
                           spec("qwen3_moe"));
  EXPECT_THAT(qwen.problems, IsEmpty());
  EXPECT_EQ(qwen.plan, (TensorPlan{.attention = true, .feed_forward = true, .embedding = false, .head = false}));
  const Result gpt_oss = read({{"embed_tokens", "embedding_rowwise"}}, spec("gpt_oss"));
  EXPECT_THAT(gpt_oss.problems, IsEmpty());
  EXPECT_TRUE(gpt_oss.plan.embedding);
  EXPECT_THAT(read({{"layers.*.mlp.experts", "ep_dispatch_experts"}}, spec("qwen3_moe")).problems,
              ElementsAre(HasSubstr("\"ep_dispatch_experts\" is a style that is not supported")));
  EXPECT_THAT(read({{"layers.*.mlp.experts.*.up_proj", "colwise"}}, spec("qwen3_moe")).problems, IsEmpty());
}

/// One mistake is one problem, however many modules it is about, and says what was meant.
TEST(TensorPlan, SaysWhatWasMeant) {
  ProblemList problems;
  tensor_plan({{"layers.*.self_attn.q_prj", "colwise"}, {"lm_head", "colwis"}, {"layers.*.input_layernorm", "colwise"}}, llama(), false, "",
              problems);
  ASSERT_EQ(problems.problems().size(), 3U);
  EXPECT_THAT(problems.problems()[0].what, HasSubstr("layers.*.input_layernorm is never cut"));
  EXPECT_THAT(problems.problems()[1].fix, HasSubstr("layers.*.self_attn.q_proj"));
  EXPECT_THAT(problems.problems()[2].fix, HasSubstr("colwise"));
}

/// 3 ranks do not divide 8 heads, which a plan for the feed-forward alone leaves whole.
TEST(TensorPlan, OnlyWhatIsCutMustDivide) {
  model::ModelSpec spec = llama();
  spec.intermediate_size = 48;
  config::Distributed distributed{.sizes = {.tp_size = 3}};
  ProblemList all, feed_forward;
  plan_split(distributed, spec, nullptr, all);
  EXPECT_FALSE(all.empty());
  distributed.tp_plan = {{"layers.*.mlp.gate_proj", "colwise"}, {"layers.*.mlp.up_proj", "colwise"}, {"layers.*.mlp.down_proj", "rowwise"}};
  plan_split(distributed, spec, nullptr, feed_forward);
  EXPECT_TRUE(feed_forward.empty());
  distributed.sizes.cp_size = 3;
  distributed.cp_attention = config::CpAttention::AllToAll;
  plan_split(distributed, spec, nullptr, feed_forward);
  EXPECT_FALSE(feed_forward.empty()) << "the ranks of cp exchange heads all the same";
}

TEST(TensorPlan, WhatIsNeverCutIsNotCutInSilence) {
  EXPECT_THAT(read({{"model.norm", "colwise"}}).problems, testing::ElementsAre(HasSubstr("\"model.norm\": model.norm is never cut")));
  EXPECT_THAT(read({{"model.norm", "replicated_with_grad_allreduce"}}).problems, IsEmpty());
}

TEST(TensorPlan, ReportsEveryMistake) {
  EXPECT_THAT(read({{"layers.*.self_attn.q", "colwise"}, {"lm_head", "diagonal"}, {"model.norm", "sequence_parallel"}}).problems,
              AllOf(Contains(HasSubstr("\"layers.*.self_attn.q\" matches no module")), Contains(HasSubstr("\"diagonal\" is an unknown style")),
                    Contains(HasSubstr("sequence_parallel does not go with sequence_parallel: false"))));
  EXPECT_THAT(read({{"layers.*.self_attn.q_proj", "colwise"}}).problems, ElementsAre(HasSubstr("not cut together")));
  EXPECT_THAT(read({{"layers.*.mlp.down_proj", "colwise"}}).problems, ElementsAre(HasSubstr("gate, up and down are not cut together")));
  EXPECT_THAT(read({{"model.layers.0.mlp.*_proj", "colwise"}}).problems, ElementsAre(HasSubstr("not cut together")));
  EXPECT_THAT(read({{"lm_head", "colwise"}}, llama(true)).problems, ElementsAre(HasSubstr("only one of them is cut")));
  EXPECT_THAT(read({{"model.norm", "sequence_parallel"}}, llama(), true).problems, IsEmpty());
}

TEST(TensorPlan, IsPrinted) {
  const std::vector<std::string> lines = describe({.feed_forward = false}, llama(), 8, true);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("model.layers.*.self_attn.k_proj"), HasSubstr("colwise: 1 of 8 heads (keys and values: 1 of 4)"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("model.layers.*.mlp.down_proj"), HasSubstr("replicate"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("model.layers.*.input_layernorm"), HasSubstr("sequence_parallel"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("model.embed_tokens"), HasSubstr("vocabulary: 8 of 60 tokens"))));
}

}  // namespace
}  // namespace tessera::parallel
