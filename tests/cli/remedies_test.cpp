// A mistake that a person can fix is reported together with the fix: every "error:" on standard error is followed by its "fix:".
#include <gmock/gmock.h>

#include <filesystem>
#include <optional>

#include "support/command_line.h"
#include "support/support.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

using test::run_tessera;
using testing::HasSubstr;
using testing::IsEmpty;

using Words = std::vector<std::string>;

constexpr const char* kRecipe = R"(step_scheduler: {global_batch_size: 2, local_batch_size: 2, max_steps: 2}
model:
  _target_: from_config
  config: {model_type: gpt2, n_embd: 64, n_layer: 2, n_head: 4, n_positions: 64, vocab_size: 80}
optimizer: {_target_: torch.optim.AdamW, lr: 0.001}
dataset: {_target_: mock_unpacked, num_sentences: 4, vocab_size: 80, max_sentence_len: 30}
checkpoint: {enabled: false}
)";

/// The first lines of errors that no fix follows.
Words errors_without_fix(const std::string& said) {
  Words found;
  std::optional<std::string> open;
  for (const std::string& line : split(said + "\nerror: ", '\n')) {
    if (line.starts_with("  fix:  ")) open.reset();
    if (!line.starts_with("error: ")) continue;
    if (open) found.push_back(*open);
    open = line;
  }
  return found;
}

TEST(ErrorsWithoutFix, AreFound) {
  EXPECT_THAT(errors_without_fix("error: a: x\n  rule: r\nerror: b: y\n  fix:  f\nerror: c: z"), testing::ElementsAre("error: a: x", "error: c: z"));
}

class Remedies : public testing::Test {
 protected:
  /// What the command says when it refuses: something with `what` in it, and a fix for everything.
  std::string refusal(const Words& arguments, const std::string& what) const {
    const auto result = run_tessera(arguments);
    EXPECT_EQ(result.status, 2) << what << "\n" << result.error;
    EXPECT_THAT(result.error, HasSubstr(what));
    EXPECT_THAT(errors_without_fix(result.error), IsEmpty()) << result.error;
    return result.error;
  }
  std::string write(const std::string& name, std::string_view text) const {
    test::write_file(directory_ / name, text);
    return directory_ / name;
  }
  /// A model directory whose config.json is qwen3's with these changes.
  std::string model(const std::string& name, const Json& changes) const {
    const std::filesystem::path golden = test::test_data("goldens/qwen3");
    std::filesystem::create_directory(directory_ / name);
    std::filesystem::copy_file(golden / "model.safetensors", directory_ / (name + "/model.safetensors"));
    Json config = read_json_file(golden / "config.json");
    config.merge_patch(changes);
    write(name + "/config.json", config.dump(1));
    return directory_ / name;
  }
  std::string recipe() const { return write("recipe.yaml", kRecipe); }

  test::TemporaryDirectory directory_;
};

TEST_F(Remedies, OfPathsAndKindsOfFiles) {
  refusal({"check", directory_.path().string()}, "Is a directory");
  refusal({"check", "/dev/null"}, "not a regular file");
  refusal({"inspect", directory_ / "absent"}, "no such file or directory");
  refusal({"inspect", write("notes.txt", "hello")}, "unknown kind of file");
  refusal({"convert", write("notes.txt", "hello"), directory_ / "out"}, "is neither a GGUF file");
  refusal({"convert", directory_ / "absent", directory_ / "out"}, "no such file or directory");
  refusal({"convert", directory_.path().string(), directory_ / "out"}, "has no config.json");
  refusal({"checkpoint", "list", directory_ / "absent"}, "no such directory");
  refusal({"checkpoint", "prune", directory_ / "absent", "--keep", "1"}, "no such directory");
  refusal({"checkpoint", "inspect", directory_.path().string()}, "not a complete checkpoint");
}

TEST_F(Remedies, OfModels) {
  const auto convert = [&](const std::string& name, const Json& changes, const std::string& what) {
    return refusal({"convert", model(name, changes), directory_ / "out"}, what);
  };
  convert("family", {{"model_type", "falcon"}}, "'falcon' is not supported");
  convert("nothing-near", {{"model_type", "zzzzzz"}}, "'zzzzzz' is unknown");
  convert("no-family", {{"model_type", nullptr}}, "model_type is missing");
  convert("no-size", {{"hidden_size", nullptr}}, "hidden_size is missing");
  convert("wrong-size", {{"vocab_size", -1}}, "vocab_size is -1");
  convert("activation", {{"hidden_act", "relu6"}}, "hidden_act: \"relu6\" is not supported");
  EXPECT_THAT(convert("rope", {{"rope_scaling", {{"rope_type", "mrope"}}}}, "rope_scaling.rope_type"), HasSubstr("copy rope_scaling"));
  convert("rope-factor", {{"rope_scaling", {{"rope_type", "linear"}}}}, "rope_scaling.factor is missing");
  convert("other-weights", {{"num_hidden_layers", 1}, {"layer_types", nullptr}}, "not part of the model");
  convert("more-weights", {{"num_hidden_layers", 30}, {"layer_types", nullptr}}, "missing");
  convert("other-shapes", {{"intermediate_size", 8}}, "of another shape than config.json says");
}

TEST_F(Remedies, OfTokenizers) {
  const auto tokenize = [&](const std::string& name, const std::string& content, const std::string& what) {
    refusal({"tokenize", write(name, content), "--text", "x"}, what);
  };
  tokenize("tokenizer.json", "{}", "\"model\" is missing");
  tokenize("unknown.json", R"({"model": {"type": "Zzz"}})", "the model \"Zzz\" is not supported");
  tokenize("tokenizer.model", "\x07", "not a SentencePiece model");
  tokenize("ranks.tiktoken", "YQ== 0\nYg== 0\n", "a token or rank that was given before");
  const std::string template_file = write("chat.jinja", "{{ raise_exception('too many turns') }}");
  refusal({"chat-template", "render", template_file, "--messages", write("object.json", "{}")}, "not a list of messages");
  refusal({"chat-template", "render", template_file, "--messages", write("list.json", "[]")}, "too many turns");
}

TEST_F(Remedies, OfData) {
  const auto inspect = [&](const std::string& name, const std::string& content, const std::string& what) {
    const std::string tokenizer = test::test_data("data/tokenizer").string();
    refusal({"data", "inspect", write(name, content), "--tokenizer", tokenizer}, what);
  };
  inspect("empty.jsonl", "", "holds no records");
  inspect("list.jsonl", "[1]\n", "not an object");
  inspect("twice.csv", "a,a\n1,2\n", "column 'a' is there twice");
}

TEST_F(Remedies, OfSchedulesAndOptions) {
  refusal({"simulate", "--schedule", "zzzzzz", "--pp", "2", "--microbatches", "2"}, "unknown schedule");
  refusal({"simulate", "--schedule", write("lines.csv", "0F0,0B0\n"), "--pp", "2", "--microbatches", "1"}, "1 lines for --pp 2");
  refusal({"simulate", "--schedule", write("words.csv", "0F0,0X0\n"), "--pp", "1", "--microbatches", "1"}, "\"0X0\" is not an action");
  const std::string qwen3 = model("qwen3", Json::object());
  std::filesystem::copy(test::test_data("data/tokenizer"), qwen3);
  refusal({"eval", qwen3, "--text", recipe(), "--seq-length", "1000000"}, "is more than the model's");
  refusal({"generate", qwen3, "--prompt", "a", "--temperature", "-1"}, "temperature -1 is negative");
  refusal({"tokenize", qwen3, "--decode", "1000000"}, "no token has the id 1000000");
}

TEST_F(Remedies, OfRecipesNameTheirLineAndKey) {
  const std::string path = recipe();
  EXPECT_THAT(refusal({"train", path, "--lr_scheduler.min_lr=-1"}, "lr_scheduler.min_lr: -1 is out of range"), HasSubstr("use 0 or more"));
  refusal({"train", path, "--lr_scheduler.init_lr=1"}, "lr_scheduler.init_lr (1) is above max_lr");
  refusal({"train", path, "--dataset.vocab_size=81"}, "command line: dataset.vocab_size: 81 does not fit");
  refusal({"train", path, "--dataloader.drop_last=true", "--step_scheduler.global_batch_size=8"}, "recipe.yaml:6: dataset: drop_last leaves nothing");
}

}  // namespace
}  // namespace tessera
