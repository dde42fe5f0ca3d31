#include "tessera/data/dataset/megatron_dataset.h"

#include <gmock/gmock.h>

#include <numeric>

#include "support/support.h"
#include "tessera/core/json.h"
#include "tessera/core/numpy_random.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;

// tests/data/data/megatron/megatron.json: what Megatron's own code draws (make_megatron_golden.py beside it).
Json golden() { return read_json_file(test::test_data("data/megatron/megatron.json")); }
std::string prefix(const std::string& name) { return test::test_data("data/megatron") / name; }

TEST(NumpyRandomState, ShufflesAsNumpyDoes) {
  const Json all = golden();
  for (const auto& [count, expected] : all["shuffles"].items()) {
    std::vector<std::int64_t> values(std::stoul(count));
    std::iota(values.begin(), values.end(), 0);
    NumpyRandomState random(static_cast<std::uint32_t>(values.size() + 1));
    random.shuffle(std::span(values));
    random.shuffle(std::span(values));
    EXPECT_EQ(values, expected.get<std::vector<std::int64_t>>());
  }
}

MegatronOptions options_of(const Json& golden_case, MegatronSplit which) {
  MegatronOptions options{.paths = {}, .split = golden_case["split"].get<std::string>(), .which = which, .seq_length = golden_case["seq_length"]};
  for (std::size_t path = 0; path < golden_case["paths"].size(); ++path) {
    if (golden_case.contains("weights")) options.paths.push_back(golden_case["weights"][path].dump());
    options.paths.push_back(prefix(golden_case["paths"][path]));
  }
  const Json& size = golden_case["sizes"][static_cast<std::size_t>(which)];
  if (!size.is_null()) options.num_samples = size.get<std::int64_t>();
  options.seed = golden_case.value("seed", 1234U);
  return options;
}

/// Every token of the files is unlike all others, so the first and the last say which sample it is, and that it is whole.
void expect_samples(const Dataset& dataset, const Json& expected, std::int64_t seq_length) {
  ASSERT_EQ(dataset.size(), std::ssize(expected));
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    const Sample sample = dataset.sample(index);
    ASSERT_EQ(std::ssize(sample.input_ids), seq_length);
    EXPECT_EQ(Json::array({sample.input_ids.front(), sample.labels.back()}), expected[static_cast<std::size_t>(index)]) << index;
    EXPECT_TRUE(std::equal(sample.input_ids.begin() + 1, sample.input_ids.end(), sample.labels.begin()));
  }
}

TEST(MegatronDataset, DrawsMegatronsSamplesInItsOrder) {
  int compared = 0;
  const Json all = golden();
  for (const Json& golden_case : all["cases"]) {
    for (const MegatronSplit which : {MegatronSplit::Train, MegatronSplit::Validation, MegatronSplit::Test}) {
      const Json& expected = golden_case["samples"][static_cast<std::size_t>(which)];
      if (expected.is_null() || expected.empty()) {
        EXPECT_THAT(test::error_of([&] { MegatronDataset(options_of(golden_case, which)); }), HasSubstr("error: "));
        continue;
      }
      SCOPED_TRACE(golden_case["split"].dump() + golden_case["paths"].dump() + std::to_string(static_cast<int>(which)));
      expect_samples(MegatronDataset(options_of(golden_case, which)), expected, golden_case["seq_length"]);
      ++compared;
    }
  }
  EXPECT_GE(compared, 12);
}

TEST(MegatronDataset, IndicesAreKeptForTheNextRun) {
  const test::TemporaryDirectory directory;
  const Json golden_case = golden()["cases"][1];
  MegatronOptions options = options_of(golden_case, MegatronSplit::Train);
  options.cache = directory / "indices";
  expect_samples(MegatronDataset(options), golden_case["samples"][0], golden_case["seq_length"]);
  ASSERT_EQ(std::distance(std::filesystem::directory_iterator(options.cache), {}), 1);
  const std::filesystem::path kept = std::filesystem::directory_iterator(options.cache)->path();
  expect_samples(MegatronDataset(options), golden_case["samples"][0], golden_case["seq_length"]);
  std::filesystem::resize_file(kept, 100);  // as a killed run would leave it
  expect_samples(MegatronDataset(options), golden_case["samples"][0], golden_case["seq_length"]);
  options.seed = 5;
  EXPECT_NE(MegatronDataset(options).sample(0).input_ids, MegatronDataset(options_of(golden_case, MegatronSplit::Train)).sample(0).input_ids);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(options.cache), {}), 2);
}

TEST(MegatronDataset, NamesWhatIsWrong) {
  const auto error = [](MegatronOptions options) { return test::error_of([&] { MegatronDataset dataset(std::move(options)); }); };
  EXPECT_THAT(error({.paths = {"0", prefix("a"), "0", prefix("b")}, .seq_length = 8, .num_samples = 10}), HasSubstr("weights of the blend sum to 0"));
  EXPECT_THAT(error({.paths = {"1", prefix("a"), "1", prefix("b")}, .seq_length = 8}), HasSubstr("a blend with weights has no number of samples"));
  EXPECT_THAT(error({.paths = {"1", prefix("a"), prefix("b"), "1"}, .seq_length = 8}), HasSubstr("stands where a weight should"));
  EXPECT_THAT(error({.paths = {prefix("a")}, .split = "0,0,0", .seq_length = 8}), HasSubstr("split: '0,0,0' sums to zero"));
  EXPECT_THAT(error({.paths = {prefix("a")}, .split = "train", .seq_length = 8}), HasSubstr("split: 'train' is not up to three shares"));
  EXPECT_THAT(error({.paths = {prefix("a")}, .seq_length = 100000}), HasSubstr("make no sample of 100000 + 1 tokens"));
  EXPECT_THAT(error({.paths = {prefix("none")}, .seq_length = 8}), HasSubstr("there is no .idx of this prefix"));
  const MegatronDataset small({.paths = {prefix("b")}, .seq_length = 8, .vocab_size = 1000});
  EXPECT_THAT(test::error_of([&] { small.sample(0); }), HasSubstr("is outside the model's vocabulary of 1000"));
}

TEST(MegatronDataset, APatternNamesSeveralPrefixes) {
  const MegatronDataset dataset({.paths = {prefix("*")}, .split = "1", .seq_length = 8});
  expect_samples(dataset, golden()["cases"][7]["samples"][0], 8);
}

}  // namespace
}  // namespace tessera::data
