#include "tessera/parallel/context/blocks.h"

#include <gtest/gtest.h>

namespace tessera::parallel {
namespace {

bool sees(std::int64_t query, std::int64_t key, const ops::AttentionOptions& options) {
  return key <= query && (!options.sliding_window || query - key < *options.sliding_window);
}

/// Runs reach each other exactly when a token of one sees one of the other: a window skips the blocks beyond it.
TEST(ContextBlocks, ReachWhatATokenOfThemSees) {
  for (const std::optional<std::int64_t> window : {std::optional<std::int64_t>(), std::optional<std::int64_t>(1), std::optional<std::int64_t>(4)}) {
    const ops::AttentionOptions options{.sliding_window = window};
    for (std::int64_t first = 0; first < 10; ++first) {
      for (const std::int64_t length : {1, 2, 5}) {
        const model::TokenRun query{.position = first, .length = length, .document = 1}, key{.position = 4, .length = 3, .document = 1};
        bool any = false;
        for (std::int64_t q = 0; q < length; ++q)
          for (std::int64_t k = 0; k < 3; ++k) any = any || sees(first + q, 4 + k, options);
        EXPECT_EQ(reaches(query, key, options), any) << first << " and " << length << " more, window " << window.value_or(0);
      }
    }
  }
}

TEST(ContextBlocks, NeverReachAnotherDocument) {
  EXPECT_FALSE(reaches({.position = 8, .length = 2, .document = 1}, {.position = 4, .length = 4, .document = 0}, {}));
}

}  // namespace
}  // namespace tessera::parallel
