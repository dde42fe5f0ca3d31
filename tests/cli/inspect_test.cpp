#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/command_line.h"
#include "support/support.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

using test::run_tessera;
using test::test_data;
using testing::HasSubstr;

TEST(Inspect, ShowsWhatADirectoryHolds) {
  const Json answer = parse_json(run_tessera({"inspect", test_data("goldens/qwen3").string(), "--json"}).output, "output");
  EXPECT_EQ(answer["metadata"]["config.json"]["model_type"], "qwen3");
  EXPECT_EQ(answer["problems"], Json::array());
}

/// What is not a model for us is shown all the same, and said.
TEST(Inspect, SaysWhyAModelCannotBeRun) {
  const test::TemporaryDirectory directory;
  std::filesystem::copy(test_data("goldens/qwen3"), directory.path(), std::filesystem::copy_options::recursive);
  Json config = parse_json(test::read_file(directory / "config.json"), "config.json");
  config["vocab_size"] = 300;
  test::write_file(directory / "config.json", config.dump());
  const auto text = run_tessera({"inspect", directory.path().string()});
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.output, HasSubstr("tessera cannot run this model\nerror: "));
  EXPECT_THAT(text.output, HasSubstr("model.embed_tokens.weight: [320, 64] in the file, [300, 64] in the model"));
  config["model_type"] = "mamba";
  test::write_file(directory / "config.json", config.dump());
  EXPECT_THAT(run_tessera({"inspect", directory.path().string(), "--json"}).output, HasSubstr("mamba"));
}

}  // namespace
}  // namespace tessera
