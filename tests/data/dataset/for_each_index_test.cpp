#include "tessera/data/dataset/for_each_index.h"

#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "support/support.h"
#include "tessera/core/error.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ForEachIndex, ReachesEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> calls(1000);
    for_each_index(1000, threads, "test", [&](std::int64_t index) { ++calls[static_cast<std::size_t>(index)]; });
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
}

TEST(ForEachIndex, ReportsTheFirstMistakesAndCountsTheOthers) {
  const auto fail = [](std::int64_t index) {
    if (index % 10 == 3) throw UserError({"line " + std::to_string(index), "wrong", "", ""});
  };
  const std::string message = test::error_of([&] { for_each_index(500, 3, "test", fail); });
  EXPECT_THAT(message, HasSubstr("line 3: wrong"));
  EXPECT_THAT(message, HasSubstr("line 93: wrong"));
  EXPECT_THAT(message, Not(HasSubstr("line 103")));
  EXPECT_THAT(message, HasSubstr("40 more like these"));
}

TEST(ForEachIndex, PassesOtherExceptionsOn) {
  EXPECT_THROW(for_each_index(100, 2, "test", [](std::int64_t) { throw std::logic_error("no"); }), std::logic_error);
}

}  // namespace
}  // namespace tessera::data
