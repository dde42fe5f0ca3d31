#include <gmock/gmock.h>

#include "support/command_line.h"
#include "support/support.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

using test::run_tessera;
using testing::AllOf;
using testing::HasSubstr;

class DataCommand : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    test::write_file(directory_ / name, text);
    return directory_ / name;
  }
  std::string tokenizer() const { return test::test_data("data/tokenizer"); }

  test::TemporaryDirectory directory_;
};

TEST_F(DataCommand, PreprocessesAndInspectsWhatItMade) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "{\"text\": \"the keeper of the lighthouse answers\"}\n";
  const auto made = run_tessera({"data", "preprocess", write("a.jsonl", lines), "--tokenizer", tokenizer(), "--output-prefix",
                                 (directory_ / "out").string(), "--append-eod", "--workers", "2"});
  EXPECT_EQ(made.status, 0) << made.error;
  EXPECT_THAT(made.output, HasSubstr("out_text_document.bin and .idx: 40 documents"));
  const auto result = run_tessera(
      {"data", "inspect", (directory_ / "out_text_document").string(), "--tokenizer", tokenizer(), "--seq-length", "16", "--samples", "1"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.output, AllOf(HasSubstr("samples of 16"), HasSubstr("lengths"), HasSubstr("sample 0 (16 tokens)"), HasSubstr("⟦")));
  const auto json = run_tessera({"data", "inspect", (directory_ / "out_text_document").string(), "--seq-length", "16", "--json"});
  EXPECT_EQ(parse_json(json.output, "output")["lengths"][0][2], parse_json(json.output, "output")["samples"]);
}

TEST_F(DataCommand, InspectsConversationsByTheirColumns) {
  const std::string path =
      write("chat.jsonl", R"({"messages": [{"role": "user", "content": "Who keeps it?"}, {"role": "assistant", "content": "Oda."}]})");
  const auto result = run_tessera({"data", "inspect", path, "--tokenizer", tokenizer()});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("1 conversations"), HasSubstr("user\nWho keeps it?<|im_end|>\n⟦<|im_start|>assistant\nOda.<|im_end|>\n⟧")));
}

TEST_F(DataCommand, InspectsTheDataOfARecipe) {
  const std::string recipe =
      write("r.yaml",
            "step_scheduler: {global_batch_size: 2, local_batch_size: 1}\n"
            "model: {_target_: from_config, config: {model_type: gpt2, n_embd: 8, n_layer: 1, n_head: 1, n_positions: 64, vocab_size: 80}}\n"
            "dataset: {_target_: mock_unpacked, num_sentences: 30, vocab_size: 80, max_sentence_len: 30}\n"
            "packed_sequence: {packed_sequence_size: 64}\noptimizer: {_target_: adamw, lr: 1.0e-3}\n");
  const auto result = run_tessera({"data", "inspect", recipe});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.output, AllOf(HasSubstr("packs of 64 tokens with 30 samples"), HasSubstr("% padding"), HasSubstr("documents  30")));
}

TEST_F(DataCommand, MistakesAreMendable) {
  EXPECT_THAT(run_tessera({"data", "inspect", write("x.jsonl", "{\"foo\": 1}\n"), "--tokenizer", tokenizer()}).error, HasSubstr("the columns foo"));
  EXPECT_THAT(run_tessera({"data", "inspect", write("x.jsonl", "{\"text\": \"a\"}\n")}).error, HasSubstr("there is no tokenizer"));
  EXPECT_EQ(run_tessera({"data"}).status, 2);
  const std::string classifier = write("r.yaml",
                                       "model: {_target_: from_config, config: {model_type: gpt2}}\n"
                                       "dataset: {_target_: nemo_automodel.components.datasets.llm.seq_cls.GLUE_MRPC, split: train}\n");
  EXPECT_THAT(run_tessera({"data", "inspect", classifier}).error, AllOf(HasSubstr("GLUE_MRPC\" is not supported"), HasSubstr("not classifiers")));
}

}  // namespace
}  // namespace tessera
