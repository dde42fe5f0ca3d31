#include "tessera/config/split.h"

#include <charconv>
#include <cmath>

namespace tessera::config {

namespace {

/// `otherwise` when it is left out; nothing when it is no number.
std::optional<SliceEnd> parse_end(std::string_view text, SliceEnd otherwise) {
  if (text.empty()) return otherwise;
  SliceEnd result;
  result.percent = text.ends_with('%');
  if (result.percent) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result.value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return result;
}

}  // namespace

std::optional<SplitSlice> parse_slice(std::string_view split) {
  const SplitSlice all;
  const std::size_t open = split.find('[');
  if (open == std::string_view::npos) return all;
  const std::size_t colon = split.find(':', open);
  if (colon == std::string_view::npos || !split.ends_with(']')) return std::nullopt;
  const auto begin = parse_end(split.substr(open + 1, colon - open - 1), all.begin);
  const auto end = parse_end(split.substr(colon + 1, split.size() - colon - 2), all.end);
  if (!begin || !end) return std::nullopt;
  return SplitSlice{*begin, *end};
}

bool keeps_nothing(const SplitSlice& slice) {
  const auto [begin, end] = slice;
  if (end.value == 0 || (end.percent && end.value <= -100) || (begin.percent && begin.value >= 100)) return true;
  if (begin.percent != end.percent) return false;
  // Of hundredths, both can be counted from the beginning; of samples, only their number says how those from the end compare.
  const auto from_the_beginning = [](const SliceEnd& at) { return at.percent && at.value < 0 ? at.value + 100 : at.value; };
  if (!begin.percent && (begin.value < 0) != (end.value < 0)) return false;
  return from_the_beginning(begin) >= from_the_beginning(end);
}

std::optional<std::array<double, 3>> parse_shares(std::string_view split) {
  std::array<double, 3> shares = {};
  std::size_t count = 0;
  for (std::size_t at = 0; at < split.size();) {
    if (split[at] == ',' || split[at] == ' ') {
      ++at;
      continue;
    }
    double share = 0.0;
    const auto [end, error] = std::from_chars(split.data() + at, split.data() + split.size(), share);
    if (error != std::errc() || !std::isfinite(share) || share < 0.0 || count == shares.size()) return std::nullopt;
    shares[count++] = share;
    at = static_cast<std::size_t>(end - split.data());
  }
  return shares;
}

}  // namespace tessera::config
