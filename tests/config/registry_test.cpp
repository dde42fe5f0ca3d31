#include "tessera/config/registry.h"

#include <set>

#include <gmock/gmock.h>

#include "support/support.h"
#include "tessera/config/sections/data.h"
#include "tessera/config/sections/training.h"

namespace tessera::config {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Registry, PythonPathsAndNativeNamesAreOneEntry) {
  const Target* adamw = find_target(TargetKind::Optimizer, "torch.optim.AdamW");
  ASSERT_NE(adamw, nullptr);
  EXPECT_EQ(adamw, find_target(TargetKind::Optimizer, "adamw"));
  EXPECT_EQ(adamw, find_target(TargetKind::Optimizer, "AdamW"));
  EXPECT_EQ(adamw->value, static_cast<int>(OptimizerKind::AdamW));
  EXPECT_EQ(find_target(TargetKind::Optimizer, "torch.optim.Adam")->value, static_cast<int>(OptimizerKind::Adam));
  EXPECT_EQ(find_target(TargetKind::Dataset, "squad")->value, static_cast<int>(DatasetKind::Squad));
  EXPECT_EQ(find_target(TargetKind::Dataset, "nemo_automodel.components.datasets.llm.ColumnMappedTextInstructionIterableDataset"),
            find_target(TargetKind::Dataset, "instruction"));
}

TEST(Registry, PatternsCatchWhatIsRefusedByName) {
  EXPECT_EQ(find_target(TargetKind::Dataset, "nemo_automodel.components.datasets.vlm.datasets.make_rdr_dataset")->support, Support::NotSupported);
  EXPECT_EQ(find_target(TargetKind::Optimizer, "dion.Muon")->native, "muon");
  EXPECT_EQ(find_target(TargetKind::Model, "nemo_automodel.NeMoAutoModelForImageTextToText.from_config")->support, Support::NotSupported);
  EXPECT_EQ(find_target(TargetKind::ModelConfig, "transformers.BertConfig")->support, Support::NotSupported);
  EXPECT_EQ(find_target(TargetKind::ModelConfig, "transformers.LlamaConfig")->support, Support::Supported);
}

TEST(Registry, PythonFilesAreRefusedNotUnknown) {
  const Target* target = find_target(TargetKind::Dataset, "my/data.py:make_dataset");
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->support, Support::NotSupported);
  EXPECT_THAT(std::string(target->reason), HasSubstr("runs no Python"));
}

TEST(Registry, UnknownNamesHaveNearOnes) {
  EXPECT_EQ(find_target(TargetKind::Optimizer, "torch.optim.AdmW"), nullptr);
  EXPECT_THAT(nearest_targets(TargetKind::Optimizer, "torch.optim.AdmW"), Contains("torch.optim.AdamW"));
  EXPECT_THAT(nearest_targets(TargetKind::Loss, "my.loss.MaskedCrossEntropi"),
              Contains("nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy"));
  EXPECT_FALSE(nearest_targets(TargetKind::Dataset, "zzzzzzzzzzzzzzzzzz").empty());
}

TEST(Registry, SuggestsWhatCanBeUsed) {
  for (const std::string& near : nearest_targets(TargetKind::Optimizer, "AdamWW"))
    EXPECT_EQ(find_target(TargetKind::Optimizer, near)->support, Support::Supported) << near;
  EXPECT_THAT(nearest_targets(TargetKind::Optimizer, "torch.optim.RMSpropp"), Contains("torch.optim.RMSprop")) << "where nothing else is near";
  EXPECT_EQ(instead_of(*find_target(TargetKind::Optimizer, "dion.Muon")), "use adamw, adam, fused_adam or flash_adamw");
}

TEST(Registry, EveryEntryIsSound) {
  std::set<std::pair<TargetKind, std::string_view>> names;
  for (const Target& target : all_targets()) {
    if (target.support != Support::Supported) {
      EXPECT_FALSE(target.reason.empty()) << target.native;
    }
    EXPECT_TRUE(!target.native.empty() || !target.python.empty());
    if (!target.native.empty()) {
      EXPECT_TRUE(names.insert({target.kind, target.native}).second) << target.native;
    }
    for (const std::string_view path : target.python) EXPECT_TRUE(names.insert({target.kind, path}).second) << path;
  }
}

}  // namespace
}  // namespace tessera::config
