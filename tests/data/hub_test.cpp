#include "tessera/data/hub/hub.h"

#include <gmock/gmock.h>

#include "support/http_server.h"
#include "support/support.h"
#include "tessera/config/hub.h"
#include "tessera/core/json.h"
#include "tessera/data/hub/checksum.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::HttpPage;
using test::read_file;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HubTest : public ::testing::Test {
 protected:
  HubTest() { variables_ = {{"HF_HOME", (directory_ / "home").string()}, {"HF_ENDPOINT", server_.url()}, {"HF_TOKEN", "hf_secret"}}; }

  Environment environment() const {
    return [this](std::string_view name) -> std::optional<std::string> {
      const auto found = variables_.find(std::string(name));
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
  }
  fs::path fetch(const HubRequest& request = {"org/set", "", "train"}) const { return hub_dataset(request, environment()); }
  std::string sha256(const std::string& content) const {
    test::write_file(directory_ / "sum", content);
    return sha256_of(directory_ / "sum");
  }
  /// A large file (by its SHA-256) for training, a small one (by git's sum) for validation, and what is no data.
  void publish() {
    test::write_file(directory_ / "sum", small_);
    const Json listing = {{"sha", "abc123"},
                          {"siblings",
                           {{{"rfilename", "data/train-0.jsonl"}, {"size", large_.size()}, {"blobId", "ab"}, {"lfs", {{"sha256", sha256(large_)}}}},
                            {{"rfilename", "data/validation 0.jsonl"}, {"size", small_.size()}, {"blobId", git_sum()}},
                            {{"rfilename", "README.md"}, {"size", 3}, {"blobId", "cd"}}}}};
    server_.set("/api/datasets/org/set/revision/main?blobs=true", {.body = listing.dump()});
    server_.set("/datasets/org/set/resolve/abc123/data/train-0.jsonl", {.body = "", .status = 302, .location = server_.url() + "/cdn"});
    server_.set("/cdn", {.body = large_});
    server_.set("/datasets/org/set/resolve/abc123/data/validation%200.jsonl", {.body = small_});
  }
  std::string git_sum() const {
    test::write_file(directory_ / "sum", small_);
    return git_sum_of(directory_ / "sum");
  }
  std::size_t count_requests(const std::string& path) const {
    std::size_t count = 0;
    for (const std::string& request : server_.requests()) count += request.starts_with("GET " + path + " ");
    return count;
  }

  test::TemporaryDirectory directory_;
  test::HttpServer server_;
  std::map<std::string, std::string> variables_;
  std::string large_ = std::string(300000, 'x') + "end";
  std::string small_ = "{\"a\": 1}\n";
};

TEST_F(HubTest, ChecksumsAreThoseOfOpenSslAndGit) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-2
  test::write_file(directory_ / "hello", "hello\n");
  EXPECT_EQ(git_sum_of(directory_ / "hello"), "ce013625030ba8dba906f756967f9e9ca394464a");  // git hash-object
}

TEST_F(HubTest, DownloadsTheSplitIntoTheCacheOfHuggingFace) {
  publish();
  const fs::path snapshot = fetch();
  EXPECT_EQ(snapshot, directory_ / "home/hub/datasets--org--set/snapshots/abc123");
  EXPECT_EQ(read_file(snapshot / "data/train-0.jsonl"), large_);
  EXPECT_EQ(fs::read_symlink(snapshot / "data/train-0.jsonl"), "../../../blobs/" + sha256(large_));
  EXPECT_FALSE(fs::exists(snapshot / "data/validation 0.jsonl"));
  EXPECT_EQ(read_file(directory_ / "home/hub/datasets--org--set/refs/main"), "abc123");
  EXPECT_EQ(config::find_data_on_disk("org/set", environment()), snapshot);

  fetch({"org/set", "", "validation[:10]"});
  EXPECT_EQ(read_file(snapshot / "data/validation 0.jsonl"), small_);
  fetch();
  EXPECT_EQ(count_requests("/cdn"), 1U);  // nothing twice
  EXPECT_THAT(server_.requests().front(), HasSubstr("Authorization: Bearer hf_secret"));
}

TEST_F(HubTest, GoesOnWhereTheConnectionBroke) {
  publish();
  server_.set("/cdn", {.body = large_, .breaks_after = 100000});
  EXPECT_EQ(read_file(fetch() / "data/train-0.jsonl"), large_);
  EXPECT_THAT(server_.requests().back(), HasSubstr("Range: bytes=100000-"));
}

TEST_F(HubTest, BeginsAgainWhereTheServerCannotGoOn) {
  publish();
  server_.set("/cdn", {.body = large_, .honours_range = false, .breaks_after = 1000});
  EXPECT_EQ(read_file(fetch() / "data/train-0.jsonl"), large_);
}

TEST_F(HubTest, ABusyServerIsAskedAgain) {
  publish();
  server_.set("/cdn", {.body = large_, .busy = 2});
  EXPECT_EQ(read_file(fetch() / "data/train-0.jsonl"), large_);
  EXPECT_EQ(count_requests("/cdn"), 3U);
}

TEST_F(HubTest, RefusesWhatTheChecksumDoesNotFit) {
  publish();
  server_.set("/cdn", {.body = std::string(large_.size(), 'y')});
  EXPECT_THAT(error_of([&] { fetch(); }), HasSubstr("the download has the checksum"));
  server_.set("/cdn", {.body = large_});
  EXPECT_EQ(read_file(fetch() / "data/train-0.jsonl"), large_);  // nothing of the wrong one is left
}

TEST_F(HubTest, OfflineUsesWhatIsThere) {
  publish();
  variables_["HF_HUB_OFFLINE"] = "1";
  EXPECT_THAT(error_of([&] { fetch(); }), AllOf(HasSubstr("HF_HUB_OFFLINE is set"), HasSubstr("hf download --repo-type dataset org/set")));
  EXPECT_TRUE(server_.requests().empty());
  variables_.erase("HF_HUB_OFFLINE");
  const fs::path snapshot = fetch();
  variables_["HF_HUB_OFFLINE"] = "1";
  EXPECT_EQ(fetch(), snapshot);
  variables_["HF_HUB_OFFLINE"] = "0";
  variables_["HF_ENDPOINT"] = "http://127.0.0.1:1";  // nobody listens
  EXPECT_EQ(fetch(), snapshot);
  EXPECT_THAT(error_of([&] { fetch({"org/other", "", ""}); }),
              AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("check the network connection"), HasSubstr("hf download")));
}

TEST_F(HubTest, SaysWhyTheHubRefuses) {
  EXPECT_THAT(error_of([&] { fetch(); }), AllOf(HasSubstr("answers 404"), HasSubstr("check the name")));
  server_.set("/api/datasets/org/set/revision/main?blobs=true", {.body = "", .status = 401});
  EXPECT_THAT(error_of([&] { fetch(); }), AllOf(HasSubstr("answers 401"), HasSubstr("HF_TOKEN"), Not(HasSubstr("hf_secret"))));
  server_.set("/api/datasets/org/set/revision/main?blobs=true",
              {.body = R"({"sha": "abc", "siblings": [{"rfilename": "../../train.jsonl", "blobId": "ab"}]})"});
  EXPECT_THAT(error_of([&] { fetch(); }), HasSubstr("names files outside the data set"));
  server_.set("/api/datasets/org/set/revision/main?blobs=true", {.body = "<html>Please log in</html>"});
  EXPECT_THAT(error_of([&] { fetch(); }), HasSubstr("the hub's answer is not a list of files"));
  server_.set("/api/datasets/org/set/revision/main?blobs=true", {.body = R"({"sha": "abc", "siblings": [{"rfilename": "a.py", "blobId": "ab"}]})"});
  EXPECT_THAT(error_of([&] { fetch(); }), HasSubstr("'org/set' has no data files"));
}

TEST_F(HubTest, FindsWhatDatasetsHasUnpacked) {
  const fs::path folder = directory_ / "home/datasets/org___set/default/0.0.0/hash";
  fs::create_directories(folder);
  test::write_file(folder / "set-train.arrow", "");
  EXPECT_EQ(config::find_data_on_disk("org/set", environment()), folder);
}

}  // namespace
}  // namespace tessera::data
