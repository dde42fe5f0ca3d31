#include "tessera/checkpoint/reshard.h"

#include <gmock/gmock.h>

#include "checkpoint/small_run.h"
#include "tessera/checkpoint/compare.h"
#include "tessera/model/piece_plan.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::error_of;
using test::SmallRun;
using test::TemporaryDirectory;
using testing::AllOf;
using testing::HasSubstr;

ReshardLayout shards(std::int64_t num_ranks, model::ParameterTable table = test::small_table()) {
  const auto owned = [num_ranks, table](std::int64_t rank) {
    return model::plan_owned_pieces(table, {.frozen = {}, .placement = {.num_shards = num_ranks, .shard = rank}});
  };
  return {num_ranks, owned, {{"world_size", num_ranks}}};
}

TEST(ReshardTest, AnyNumberOfRanksHoldsTheSameState) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const TemporaryDirectory directory;
    test::UnsyncedOperations operations;
    SmallRun run(dtype);
    run.train(3);
    SaveRequest request = run.request(3);
    request.consolidate = true;
    const fs::path whole = CheckpointDirectory(operations, directory / "run", {}, test::alone()).save(request);
    for (const std::int64_t num_ranks : {1, 2, 5}) {
      const fs::path output = directory / std::to_string(num_ranks);
      std::uint64_t bytes = 0;
      reshard(operations, whole, output, shards(num_ranks), {.progress = [&](std::uint64_t more) { bytes += more; }});
      EXPECT_EQ(bytes, bytes_to_reshard(read_manifest(whole), Verify::Full));
      const Manifest manifest = read_manifest(output);
      EXPECT_TRUE(verify_files(output, manifest, Verify::Full).empty());
      EXPECT_EQ(manifest.layout.at("world_size"), num_ranks);
      EXPECT_TRUE(compare(whole, output).same());
      EXPECT_TRUE(manifest.files.contains("model/config.json"));
      EXPECT_FALSE(fs::exists(output / "model/consolidated"));
      SmallRun restored(dtype);
      restored.restore(output);
      EXPECT_TRUE(test::same_state(restored, run));
    }
  }
}

/// Ranks save what they own: the arithmetic must say the same.
TEST(ReshardTest, PlannedPiecesAreThoseOfAStore) {
  for (const std::int64_t num_shards : {1, 2, 3}) {
    for (std::int64_t rank = 0; rank < 2 * num_shards; ++rank) {
      model::ParameterStore::Options options = test::store_options(DType::F32, [](const model::ParameterSpec& spec) { return spec.unit == 0; });
      options.placement = {.num_shards = num_shards, .shard = rank % num_shards, .num_replicas = 2, .replica = rank / num_shards};
      const Pieces planned = model::plan_owned_pieces(test::small_table(), options);
      const Pieces actual = model::ParameterStore(test::small_table(), options).owned_pieces();
      ASSERT_EQ(planned.size(), actual.size());
      for (std::size_t i = 0; i < planned.size(); ++i) {
        EXPECT_EQ(planned[i].piece.tensor, actual[i].piece.tensor);
        EXPECT_EQ(planned[i].piece.offset, actual[i].piece.offset);
        EXPECT_EQ(planned[i].piece.size, actual[i].piece.size);
      }
    }
  }
}

// What came out would have hashes of its own.
TEST(ReshardTest, DamageIsRefusedAndNotCopied) {
  test::UnsyncedOperations operations;
  for (const char* const name : {"model/shard-00001-of-00001.safetensors", "optim/shard-00001-of-00001.safetensors", "loader.json", "config.yaml"}) {
    const TemporaryDirectory directory;
    const SmallRun run;
    const fs::path whole = CheckpointDirectory(operations, directory / "run", {}, test::alone()).save(run.request(1));
    const auto reshard_with = [&](Verify verify) { reshard(operations, whole, directory / "out", shards(2), {.verify = verify}); };
    test::flip_a_bit(whole / name);
    EXPECT_THAT(error_of([&] { reshard_with(Verify::Full); }), AllOf(HasSubstr(name), HasSubstr("not what was saved")));
    EXPECT_FALSE(fs::exists(directory / "out"));
    if (std::string_view(name).ends_with(".safetensors"))
      reshard_with(Verify::Sizes);  // as asked
    else
      EXPECT_THAT(error_of([&] { reshard_with(Verify::Off); }), HasSubstr(name));
  }
}

TEST(ReshardTest, RefusesWhatDoesNotFit) {
  const TemporaryDirectory directory;
  test::UnsyncedOperations operations;
  const SmallRun run;
  const fs::path whole = CheckpointDirectory(operations, directory / "run", {}, test::alone()).save(run.request(1));
  EXPECT_THAT(error_of([&] { reshard(operations, whole, directory / "run", shards(2)); }), HasSubstr("exists already"));
  model::ParameterTable other = test::small_table();
  other.parameters[4].pieces = {test::whole("another.weight", {5})};
  EXPECT_THAT(error_of([&] { reshard(operations, whole, directory / "out", shards(2, other)); }), HasSubstr("another.weight"));
  EXPECT_FALSE(fs::exists(directory / ".out.saving"));
  // A layout in which nobody owns the second half.
  EXPECT_THAT(error_of([&] { reshard(operations, whole, directory / "out", {.owned_pieces = shards(2).owned_pieces}); }), HasSubstr("elements"));
  const fs::path shard = whole / "optim/shard-00001-of-00001.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  EXPECT_THAT(error_of([&] { reshard(operations, whole, directory / "out", shards(2)); }), HasSubstr("truncated"));
}

}  // namespace
}  // namespace tessera::checkpoint
