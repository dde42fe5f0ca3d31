#include "tessera/core/error.h"

#include <gmock/gmock.h>

namespace tessera {
namespace {

TEST(Error, ProblemPrintsWhereWhatRuleAndFix) {
  EXPECT_EQ(to_string(Problem{"recipe.yaml:14", "tp_size: 3 does not divide 8", "ranks hold whole heads", "use 1, 2, 4 or 8"}),
            "error: recipe.yaml:14: tp_size: 3 does not divide 8\n  rule: ranks hold whole heads\n  fix:  use 1, 2, 4 or 8");
}

TEST(Error, EmptyPartsLeaveNoTrace) { EXPECT_EQ(to_string(Problem{"", "no model", "", ""}), "error: no model"); }

TEST(Error, UserErrorReportsEveryProblem) {
  const UserError error({Problem{"a:1", "first", "", ""}, Problem{"a:2", "second", "", "mend it"}});
  EXPECT_STREQ(error.what(), "error: a:1: first\nerror: a:2: second\n  fix:  mend it");
  EXPECT_EQ(error.problems().size(), 2U);
}

TEST(Error, FailureKeepsItsProblem) {
  const Failure failure({"/data", "cannot write: disk full", "", "free some space"});
  EXPECT_STREQ(failure.what(), "error: /data: cannot write: disk full\n  fix:  free some space");
  EXPECT_EQ(failure.problem().where, "/data");
}

TEST(Error, ProblemListThrowsEverythingOnce) {
  ProblemList list;
  EXPECT_NO_THROW(list.throw_if_any());
  list.add(Problem{"x", "one", "", ""});
  list.add(UserError({Problem{"y", "two", "", ""}, Problem{"z", "three", "", ""}}));
  try {
    list.throw_if_any();
    FAIL() << "expected a UserError";
  } catch (const UserError& error) {
    ASSERT_EQ(error.problems().size(), 3U);
    EXPECT_EQ(error.problems()[2].what, "three");
  }
}

TEST(ErrorDeathTest, AssertionNamesConditionPlaceAndMessage) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(TESSERA_ASSERT(1 + 1 == 3, "arithmetic broke"), "internal error: .*error_test.cpp:[0-9]+: arithmetic broke \\(1 \\+ 1 == 3\\)");
}

TEST(Error, AssertionThatHoldsIsSilent) { TESSERA_ASSERT(true, "never printed"); }

}  // namespace
}  // namespace tessera
