#include "tessera/checkpoint/checkpoint.h"

#include <gmock/gmock.h>

#include <iostream>

#include "checkpoint/small_run.h"
#include "tessera/core/error.h"
#include "tessera/formats/huggingface.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

using test::error_of;
using test::SmallRun;
using test::TemporaryDirectory;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

fs::path save_with_metric(const fs::path& directory, const SmallRun& run, std::int64_t step, std::optional<double> metric,
                          DirectoryOptions options = {}) {
  SaveRequest request = run.request(step);
  request.state.validation_metric = metric;
  return test::save(directory, request, options);
}

class ResumeTest : public testing::TestWithParam<DType> {};

TEST_P(ResumeTest, IsBitwiseExact) {
  const TemporaryDirectory directory;
  SmallRun run(GetParam());
  run.train(3);
  const fs::path checkpoint = test::save(directory.path(), run.request(3));
  SmallRun resumed(GetParam());
  const TrainingState state = resumed.restore(checkpoint, {.verify = Verify::Full});
  EXPECT_TRUE(test::same_state(run, resumed));
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.loader.at("consumed"), 21);
  EXPECT_EQ(state.scheduler.at("max_lr"), 0.1);
  EXPECT_TRUE(state.rng.is_null());
  run.train(4);
  resumed.train(4);
  EXPECT_TRUE(test::same_state(run, resumed));
}

INSTANTIATE_TEST_SUITE_P(DTypes, ResumeTest, testing::Values(DType::F32, DType::BF16, DType::F16, DType::F64),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(CheckpointTest, FrozenParametersAreSavedWithoutMoments) {
  const auto frozen = [](const model::ParameterSpec& spec) { return spec.unit == 0; };
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const TemporaryDirectory directory;
    SmallRun run(dtype, frozen);
    run.train(2);
    const fs::path checkpoint = test::save(directory.path(), run.request(2));
    SmallRun resumed(dtype, frozen);
    resumed.restore(checkpoint);
    EXPECT_TRUE(test::same_state(run, resumed));
    EXPECT_FALSE(read_manifest(checkpoint).optim.contains("exp_avg.model.embed.weight"));
    SmallRun thawed(dtype);
    EXPECT_THAT(error_of([&] { thawed.restore(checkpoint); }),
                AllOf(HasSubstr("exp_avg.model.embed.weight is missing"), HasSubstr("restore_optimizer: false")));
    const TemporaryDirectory other;
    thawed.train(2);
    SmallRun freezes(dtype, frozen);
    EXPECT_THAT(error_of([&] { freezes.restore(test::save(other.path(), thawed.request(2))); }),
                AllOf(HasSubstr("exp_avg.model.embed.weight is of a parameter that is frozen now"), Not(HasSubstr("not in the model"))));
  }
}

TEST(CheckpointTest, MastersAreKeptOnlyWhereTheWeightsAreRounded) {
  const TemporaryDirectory directory;
  const fs::path exact = test::save(directory.path(), SmallRun(DType::F32).request(1));
  const fs::path rounded = test::save(directory.path(), SmallRun(DType::BF16).request(2));
  EXPECT_FALSE(read_manifest(exact).optim.contains("master.model.norm.weight"));
  EXPECT_EQ(read_manifest(rounded).optim.at("master.model.norm.weight").dtype, DType::F32);
  EXPECT_EQ(read_manifest(rounded).model.at("model.norm.weight").dtype, DType::BF16);
}

TEST(CheckpointTest, ARoundedWeightDoesNotPassForAMasterThatIsMissing) {
  const TemporaryDirectory directory;
  SmallRun run(DType::BF16);
  run.train(1);
  const fs::path checkpoint = test::save(directory.path(), run.request(1));
  Manifest manifest = read_manifest(checkpoint);
  for (const char* name : {"model.norm.weight", "layers.0.down.bias"}) manifest.optim.erase(std::string("master.") + name);
  test::write_file(checkpoint / kManifestName, to_text(manifest));
  EXPECT_THAT(error_of([&] { run.restore(checkpoint); }),
              AllOf(HasSubstr("master.model.norm.weight is missing"), HasSubstr("master.layers.0.down.bias is missing"),
                    HasSubstr("restore_optimizer: false")));
  run.restore(checkpoint, {.restore_optimizer = false});
}

TEST(CheckpointTest, AnotherPrecisionContinuesFromTheMasters) {
  const TemporaryDirectory directory;
  SmallRun bf16(DType::BF16);
  bf16.train(2);
  SmallRun fp32(DType::F32);
  fp32.restore(test::save(directory.path(), bf16.request(1)));
  SmallRun again(DType::BF16);
  again.restore(test::save(directory.path(), fp32.request(2)));
  EXPECT_TRUE(test::same_state(bf16, again));
}

TEST(CheckpointTest, WeightsAloneComeFromTheModelFolder) {
  const TemporaryDirectory directory;
  SmallRun run(DType::BF16);
  run.train(2);
  const fs::path checkpoint = test::save(directory.path(), run.request(2));
  fs::remove_all(checkpoint / "optim");
  SmallRun fresh(DType::BF16);
  fresh.restore(checkpoint, {.verify = Verify::Full, .restore_optimizer = false});
  for (std::size_t i = 0; i < run.store.buffers().size(); ++i) {
    EXPECT_TRUE(fresh.store.buffers()[i].compute.equal(run.store.buffers()[i].compute));
    EXPECT_TRUE(fresh.store.buffers()[i].master.equal(run.store.buffers()[i].compute.to(at::kFloat)));
  }
  EXPECT_EQ(fresh.optimizer.num_steps(), 0);
  EXPECT_THAT(error_of([&] { fresh.restore(checkpoint); }),
              AllOf(HasSubstr("optim/shard-00001-of-00001.safetensors"), HasSubstr("missing"), HasSubstr("restore_optimizer: false")));
}

TEST(CheckpointTest, WritesTheDocumentedFiles) {
  const TemporaryDirectory source;
  test::write_file(source / "config.json", R"({"model_type": "small", "torch_dtype": "float32", "hidden_size": 5})");
  test::write_file(source / "tokenizer.json", "{}");
  test::write_file(source / "generation_config.json", "{\"eos_token_id\": 2}");
  const TemporaryDirectory directory;
  const SmallRun run(DType::BF16);
  SaveRequest request = run.request(4);
  const ModelFiles files = model_files(source.path(), DType::BF16);
  fs::remove_all(source.path());  // a run does not go back to where its model came from
  request.model_files = &files;
  request.consolidate = true;
  const fs::path checkpoint = test::save(directory.path(), request);
  for (const char* file : {"model/shard-00001-of-00001.safetensors", "model/config.json", "model/tokenizer.json", "model/generation_config.json",
                           "model/consolidate.sh", "model/consolidated/model.safetensors", "model/consolidated/config.json",
                           "model/consolidated/tokenizer.json", "model/consolidated/generation_config.json", "optim/shard-00001-of-00001.safetensors",
                           "loader.json", "scheduler.json", "losses.json", "config.yaml"}) {
    EXPECT_TRUE(fs::exists(checkpoint / file)) << file;
    EXPECT_TRUE(read_manifest(checkpoint).files.contains(file)) << file;
  }
  EXPECT_EQ(read_json_file(checkpoint / "model/config.json").at("torch_dtype"), "bfloat16");
  EXPECT_EQ(read_json_file(checkpoint / "model/config.json").at("hidden_size"), 5);
  EXPECT_EQ(test::read_file(checkpoint / "model/consolidated/generation_config.json"), "{\"eos_token_id\": 2}");
  EXPECT_EQ(checkpoint.filename(), "epoch_0_step_4");
  EXPECT_TRUE(formats::has_weights(checkpoint / "model/consolidated"));
}

TEST(CheckpointTest, LinksFollowTheNewestAndTheLowest) {
  const TemporaryDirectory directory;
  const SmallRun run;
  const auto lowest = [&] { return link_target(directory.path(), kLowestValidation)->filename().string(); };
  save_with_metric(directory.path(), run, 1, std::nullopt);
  EXPECT_FALSE(link_target(directory.path(), kLowestValidation).has_value());
  save_with_metric(directory.path(), run, 2, 3.0);
  EXPECT_EQ(lowest(), "epoch_0_step_2");
  save_with_metric(directory.path(), run, 3, 2.0);
  save_with_metric(directory.path(), run, 4, 2.5);
  save_with_metric(directory.path(), run, 5, std::nan(""));
  EXPECT_EQ(lowest(), "epoch_0_step_3");
  EXPECT_EQ(fs::read_symlink(directory / kLatest), "epoch_0_step_5");
}

TEST(CheckpointTest, RetentionKeepsTheNewestAndTheLinked) {
  const TemporaryDirectory directory;
  const SmallRun run;
  for (const auto& [step, metric] : {std::pair(1, 1.0), std::pair(2, 9.0), std::pair(3, 9.0), std::pair(4, 9.0)})
    save_with_metric(directory.path(), run, step, metric, {.max_recent_checkpoints = 2});
  std::vector<std::int64_t> steps;
  for (const CheckpointEntry& entry : list_checkpoints(directory.path())) steps.push_back(entry.step);
  EXPECT_THAT(steps, testing::ElementsAre(1, 3, 4));
}

TEST(CheckpointTest, NeverOverwrites) {
  const TemporaryDirectory directory;
  const SmallRun run;
  test::save(directory.path(), run.request(5));
  EXPECT_THAT(error_of([&] { test::save(directory.path(), run.request(5)); }), HasSubstr("epoch_0_step_5: exists already"));
}

TEST(CheckpointTest, RefusesADirectoryItCannotUse) {
  const TemporaryDirectory directory;
  test::write_file(directory / "file", "");
  test::UnsyncedOperations operations;
  for (const fs::path& path : {directory.path() / "file", directory.path() / "file" / "below", fs::path("/proc/tessera")})
    EXPECT_THAT(error_of([&] { CheckpointDirectory(operations, path, {}, test::alone()); }), HasSubstr("cannot create the checkpoint directory"));
  fs::create_symlink("gone", directory / "link");
  EXPECT_THAT(error_of([&] { CheckpointDirectory(operations, directory / "link", {}, test::alone()); }),
              AllOf(HasSubstr("it is a link to gone, which does not exist"), HasSubstr("make what it leads to")));
}

TEST(CheckpointTest, RefusesAnotherModelAndShowsBoth) {
  const TemporaryDirectory directory;
  SmallRun run;
  const fs::path checkpoint = test::save(directory.path(), run.request(1));
  model::ModelSpec spec;
  spec.model_type = "other";
  const ModelSignature other = model_signature(spec, run.store.table());
  EXPECT_THAT(error_of([&] { restore(checkpoint, other, run.store, &run.optimizer, {}); }),
              AllOf(HasSubstr("checkpoint: small:"), HasSubstr("recipe:     other:"), HasSubstr("parameters")));
}

TEST(CheckpointTest, ListsEveryMissingSurplusAndMisshapenTensorBeforeTouchingAnything) {
  const TemporaryDirectory directory;
  SmallRun run;
  run.train(1);
  const fs::path checkpoint = test::save(directory.path(), run.request(1));
  model::ParameterTable table = test::small_table();
  table.parameters[4].shape = {6};
  table.parameters[4].pieces = {test::whole("model.norm.weight", {6})};
  table.parameters[3].pieces[0].tensor = "layers.0.down.offset";
  model::ParameterStore store(table, {});
  optim::Optimizer optimizer(store, {});
  const std::string message = error_of([&] { restore(checkpoint, run.signature(), store, &optimizer, {}); });
  for (const char* part : {"layers.0.down.offset is missing in the checkpoint", "layers.0.down.bias is in the checkpoint and not in the model",
                           "model.norm.weight has shape [5] in the checkpoint, [6] in the model", "exp_avg_sq.layers.0.down.offset is missing",
                           "exp_avg.layers.0.down.bias is in the checkpoint and not in the model"})
    EXPECT_THAT(message, HasSubstr(part));
  EXPECT_EQ(store.master(0).abs().sum().item<double>(), 0.0);
}

/// Flips one bit in every `stride`-th byte of every file of a checkpoint, the manifest's too.
void expect_flips_are_found(const auto& stride_of) {
  const TemporaryDirectory directory;
  SmallRun run;
  SaveRequest request = run.request(1);
  request.consolidate = true;
  const fs::path checkpoint = test::save(directory.path(), request);
  const Manifest manifest = read_manifest(checkpoint);
  std::size_t flips = 0;
  for (const auto& [name, record] : manifest.files) {
    const std::string good = test::read_file(checkpoint / name);
    for (std::size_t position = 0; position < good.size(); position += stride_of(good.size()), ++flips) {
      std::string bad = good;
      bad[position] = static_cast<char>(bad[position] ^ (1 << (position % 8)));
      test::write_file(checkpoint / name, bad);
      ASSERT_EQ(verify_files(checkpoint, manifest, Verify::Full).size(), 1u) << name << " " << position;
      if (name.starts_with("model/consolidated/")) continue;  // a copy for others: not read on resume
      SmallRun restored;
      ASSERT_THAT(error_of([&] { restored.restore(checkpoint, {.verify = Verify::Full}); }), HasSubstr(name));
    }
    test::write_file(checkpoint / name, good);
  }
  const std::string good = test::read_file(checkpoint / kManifestName);
  for (std::size_t position = 0; position < good.size(); position += stride_of(good.size()), ++flips) {
    std::string bad = good;
    bad[position] = static_cast<char>(bad[position] ^ (1 << (position % 8)));
    test::write_file(checkpoint / kManifestName, bad);
    ASSERT_THAT(error_of([&] { read_manifest(checkpoint); }), HasSubstr("damaged")) << position;
  }
  test::write_file(checkpoint / kManifestName, good);
  EXPECT_TRUE(verify_files(checkpoint, read_manifest(checkpoint), Verify::Full).empty());
  std::cout << "flipped bits: " << flips << "\n";
}

TEST(CorruptionTest, AFlippedBitAnywhereIsFound) {
  expect_flips_are_found([](std::size_t size) { return 1 + size / 40; });
}
TEST(CorruptionTest, LONG_AFlippedBitInEveryByteIsFound) {
  expect_flips_are_found([](std::size_t) { return std::size_t{1}; });
}

TEST(CorruptionTest, NamesTheDamagedTensor) {
  const TemporaryDirectory directory;
  SmallRun run;
  const fs::path checkpoint = test::save(directory.path(), run.request(1));
  const fs::path file = checkpoint / "optim/shard-00001-of-00001.safetensors";
  test::flip_a_bit(file);
  EXPECT_THAT(error_of([&] { run.restore(checkpoint, {.verify = Verify::Full}); }), HasSubstr("exp_avg_sq.model.norm.weight is damaged"));
}

/// Cuts what a load reads at every `stride`-th length.
void expect_truncation_is_refused(const auto& stride_of) {
  const TemporaryDirectory directory;
  SmallRun run;
  const fs::path checkpoint = test::save(directory.path(), run.request(1));
  for (const char* name : {"model/shard-00001-of-00001.safetensors", "optim/shard-00001-of-00001.safetensors", "loader.json", "scheduler.json",
                           "losses.json", "manifest.json"}) {
    const std::string good = test::read_file(checkpoint / name);
    for (std::size_t size = 0; size < good.size(); size += stride_of(good.size())) {
      test::write_file(checkpoint / name, good.substr(0, size));
      for (const Verify verify : {Verify::Full, Verify::Sizes, Verify::Off})
        ASSERT_THAT(error_of([&] { run.restore(checkpoint, {.verify = verify}); }), HasSubstr(name)) << size;
    }
    test::write_file(checkpoint / name, good);
  }
  run.restore(checkpoint, {.verify = Verify::Full});
}

TEST(CorruptionTest, EveryLoadRefusesTruncation) {
  expect_truncation_is_refused([](std::size_t size) { return size < 9 ? 1 : size / 9; });
}
TEST(CorruptionTest, LONG_EveryLoadRefusesTruncationAtEveryLength) {
  expect_truncation_is_refused([](std::size_t) { return std::size_t{1}; });
}

// Ranks that restore together divide the files; each damage is somebody's to find.
TEST(CorruptionTest, RanksCheckTheFilesTogether) {
  const TemporaryDirectory directory;
  SmallRun run;
  const fs::path checkpoint = test::save(directory.path(), run.request(1));
  for (const char* name : {"model/shard-00001-of-00001.safetensors", "optim/shard-00001-of-00001.safetensors", "model/config.json", "config.yaml"}) {
    test::flip_a_bit(checkpoint / name);
    int found = 0;
    for (int rank = 0; rank < 3; ++rank) {
      try {
        run.restore(checkpoint, {.verify = Verify::Full, .rank = rank, .num_ranks = 3});
      } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr(name));
        ++found;
      }
    }
    EXPECT_EQ(found, 1) << name;
    test::flip_a_bit(checkpoint / name);  // back
  }
}

}  // namespace
}  // namespace tessera::checkpoint
