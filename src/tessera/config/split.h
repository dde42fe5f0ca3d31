#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

/// What a dataset's `split` says before its data is there.
namespace tessera::config {

/// One end of a slice: a number of samples, or of hundredths of them; negative ones count from the end.
struct SliceEnd {
  std::int64_t value = 0;
  bool percent = false;
};
/// Samples [begin, end).
struct SplitSlice {
  SliceEnd begin = {0, false};
  SliceEnd end = {100, true};
};

/// The slice of "train[:128]", "train[10:20]", "train[-5:]" or "train[:10%]"; everything for a name alone. Nothing for what is neither.
std::optional<SplitSlice> parse_slice(std::string_view split);
/// Whether it keeps nothing, however many samples there are.
bool keeps_nothing(const SplitSlice& slice);

/// "900,50,50": up to three shares from 0 (train, validation, test), those left out 0. Nothing for anything else.
std::optional<std::array<double, 3>> parse_shares(std::string_view split);

}  // namespace tessera::config
