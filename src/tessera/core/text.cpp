#include "tessera/core/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

namespace tessera {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitution, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> known, std::size_t limit) {
  std::vector<std::pair<std::size_t, std::string>> ranked;
  // Of a short word about half may differ: one letter resembles no other.
  const std::size_t most = word.size() < 2 ? 0 : std::min(std::max<std::size_t>(2, word.size() / 3), (word.size() + 1) / 2);
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(word, name);
    const bool contains = word.size() >= 4 && (name.find(word) != std::string::npos || word.find(name) != std::string_view::npos);
    if (distance <= most || contains) ranked.emplace_back(distance, name);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(limit, ranked.size()); ++i) names.push_back(ranked[i].second);
  return names;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known, std::string otherwise) {
  const std::vector<std::string> names = nearest_names(word, known);
  if (names.empty()) return otherwise;
  return "did you mean " + alternatives(names) + "?";
}

std::string alternatives(std::span<const std::string> words) {
  if (words.size() < 2) return words.empty() ? "" : words[0];
  return fmt::format("{} or {}", fmt::join(words.first(words.size() - 1), ", "), words.back());
}

std::string plural(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : noun.ends_with("ch") ? "es" : "s");
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024.0 && unit + 1 < units.size()) bytes /= 1024.0, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, units[unit]);
}

std::string human_count(double count) {
  constexpr std::array<const char*, 5> units{"", " k", " M", " B", " T"};
  std::size_t unit = 0;
  while (count >= 1000.0 && unit + 1 < units.size()) count /= 1000.0, ++unit;
  return unit == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.2f}{}", count, units[unit]);
}

std::string human_duration(double seconds) {
  const auto total = std::lround(seconds);
  if (total < 60) return fmt::format("{:.1f} s", seconds);
  if (total < 3600) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} h {:02} min", total / 3600, total % 3600 / 60);
}

namespace {

bool eight_ascii_bytes(std::string_view text, std::size_t begin) {
  std::uint64_t eight = 0;
  if (begin + sizeof eight > text.size()) return false;
  std::memcpy(&eight, text.data() + begin, sizeof eight);
  return (eight & 0x8080808080808080) == 0;
}

}  // namespace

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t i = 0;
  const auto byte = [&](std::size_t index) { return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U; };
  const auto continues = [&](std::size_t index) { return (byte(index) & 0xC0) == 0x80; };
  while (i < text.size()) {
    const unsigned lead = byte(i);
    if (lead < 0x80) {
      ++i;
      while (eight_ascii_bytes(text, i)) i += 8;
    } else if (lead >= 0xC2 && lead <= 0xDF && continues(i + 1)) {
      i += 2;
    } else if ((lead & 0xF0) == 0xE0 && continues(i + 1) && continues(i + 2) && !(lead == 0xE0 && byte(i + 1) < 0xA0) &&
               !(lead == 0xED && byte(i + 1) > 0x9F)) {
      i += 3;
    } else if (lead >= 0xF0 && lead <= 0xF4 && continues(i + 1) && continues(i + 2) && continues(i + 3) && !(lead == 0xF0 && byte(i + 1) < 0x90) &&
               !(lead == 0xF4 && byte(i + 1) > 0x8F)) {
      i += 4;
    } else {
      return i;
    }
  }
  return std::string_view::npos;
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return lower;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator, begin)) {
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

}  // namespace tessera
