#include "tessera/config/hub.h"

#include "support/support.h"

namespace tessera::config {
namespace {

TEST(Hub, NamesAreToldFromPaths) {
  EXPECT_TRUE(looks_like_hub_name("meta-llama/Llama-3.2-1B"));
  EXPECT_TRUE(looks_like_hub_name("gpt2"));
  for (const char* path : {"", "./x/y", "/abs", "../x", "a/b/c", "x/", "data/train.jsonl", "~/models", "a b/c"})
    EXPECT_FALSE(looks_like_hub_name(path)) << path;
}

TEST(Hub, PathsComeFirstThenTheLocalCache) {
  const test::TemporaryDirectory directory;
  const Environment environment = [&](std::string_view name) -> std::optional<std::string> {
    return name == "HF_HOME" ? std::optional(directory.path().string()) : std::nullopt;
  };
  EXPECT_EQ(find_on_disk(directory.path().string(), environment), directory.path());
  EXPECT_EQ(find_on_disk("org/model", environment), std::nullopt);

  const auto repository = directory.path() / "hub" / "models--org--model";
  std::filesystem::create_directories(repository / "snapshots" / "abc");
  std::filesystem::create_directories(repository / "refs");
  test::write_file(repository / "refs" / "main", "abc");
  EXPECT_EQ(find_on_disk("org/model", environment), repository / "snapshots" / "abc");
  test::write_file(repository / "refs" / "main", "../../elsewhere");
  EXPECT_EQ(find_on_disk("org/model", environment), std::nullopt);
}

}  // namespace
}  // namespace tessera::config
