#include <gmock/gmock.h>

#include "config/section_recipe.h"
#include "support/support.h"
#include "tessera/config/recipe.h"

namespace tessera::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

LoadedRecipe recipe_of(const std::string& lines) { return load_recipe(parse_yaml(lines, "r.yaml"), no_variables); }

TEST(BatchSizes, GlobalIsAMultipleOfLocalTimesRanks) {
  const LoadedRecipe loaded = recipe_of(
      "model: {pretrained_model_name_or_path: m}\ndataset: {_target_: mock}\nstep_scheduler: {global_batch_size: 30, local_batch_size: 4}\n");
  ProblemList problems;
  validate_batch_sizes(loaded, 2, problems);
  ASSERT_EQ(problems.problems().size(), 1U);
  EXPECT_THAT(to_string(problems.problems()[0]),
              AllOf(HasSubstr("r.yaml:3: step_scheduler.global_batch_size: 30"), HasSubstr("4 · 2"), HasSubstr("24 or 32")));
  ProblemList none;
  validate_batch_sizes(recipe_of("model: {pretrained_model_name_or_path: m}\ndataset: {_target_: mock}\n"), 8, none);
  EXPECT_TRUE(none.empty());
}

TEST(BatchSizes, NameTheKeyThatWasSet) {
  const LoadedRecipe loaded = recipe_of(
      "model: {pretrained_model_name_or_path: m}\ndataset: {_target_: mock}\nstep_scheduler: {global_batch_size: 4}\ndataloader: {batch_size: 3}\n");
  ProblemList problems;
  validate_batch_sizes(loaded, 2, problems);
  ASSERT_EQ(problems.problems().size(), 1U);
  EXPECT_THAT(to_string(problems.problems()[0]),
              AllOf(HasSubstr("r.yaml:4: dataloader.batch_size: 3 · data-parallel ranks (2) does not divide global_batch_size (4)"),
                    HasSubstr("use global_batch_size 6, or another batch_size")));
}

TEST(BatchSizes, PackingNeedsOnePackPerMicrobatch) {
  const LoadedRecipe loaded = recipe_of(
      "model: {pretrained_model_name_or_path: m}\ndataset: {_target_: mock}\nstep_scheduler: {local_batch_size: 2}\npacked_sequence: "
      "{packed_sequence_size: 64}\n");
  ProblemList problems;
  validate_packing(loaded, problems);
  ASSERT_EQ(problems.problems().size(), 1U);
  EXPECT_THAT(problems.problems()[0].what, HasSubstr("packed_sequence"));

  const LoadedRecipe rows = recipe_of(
      "model: {pretrained_model_name_or_path: m}\ndataset: {_target_: mock}\ndataloader: {batch_size: 2}\nvalidation_dataloader: {batch_size: 4}\n"
      "packed_sequence: {packed_sequence_size: 64}\n");
  ProblemList of_rows;
  validate_packing(rows, of_rows);
  ASSERT_EQ(of_rows.problems().size(), 2U);
  EXPECT_EQ(of_rows.problems()[0].where, "r.yaml:3");
  EXPECT_EQ(of_rows.problems()[1].what, "validation_dataloader.batch_size: 4 does not go with packed_sequence");
}

TEST(AbsentResources, EachNameIsOneProblem) {
  const LoadedRecipe loaded = recipe_of(
      "model: {pretrained_model_name_or_path: some-org/some-model}\n"
      "dataset: {_target_: instruction, path_or_dataset_id: no/such/file.jsonl, column_mapping: {answer: a}, tokenizer: some-org/some-model}\n");
  const std::vector<Problem> absent = absent_resources(loaded, no_variables);
  ASSERT_EQ(absent.size(), 2U);
  EXPECT_EQ(absent[0].what, "model.pretrained_model_name_or_path: some-org/some-model is a Hub name and not on disk");
  EXPECT_EQ(absent[0].where, "r.yaml:1");
  EXPECT_EQ(absent[1].what, "dataset.path_or_dataset_id: no/such/file.jsonl is not on disk");
}

TEST(AbsentResources, WhatIsThereIsNotReported) {
  const test::TemporaryDirectory directory;
  const LoadedRecipe loaded = recipe_of("model: {pretrained_model_name_or_path: " + directory.path().string() + "}\ndataset: {_target_: mock}\n");
  EXPECT_TRUE(absent_resources(loaded, no_variables).empty());
}

}  // namespace
}  // namespace tessera::config
