#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Levenshtein distance in bytes.
std::size_t edit_distance(std::string_view a, std::string_view b);
/// Up to `limit` of `known` that resemble `word` (small edit distance or containment), nearest first: for "did you mean …".
std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> known, std::size_t limit = 3);
/// "did you mean a, b or c?", or `otherwise` when there is nothing near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known, std::string otherwise = "");

/// "1.2 GiB", "134.5 M", "1 h 02 min": for people.
std::string human_bytes(double bytes);
std::string human_count(double count);
std::string human_duration(double seconds);

/// Byte offset of the first invalid UTF-8 sequence, or npos when the text is valid (no surrogates, no overlong forms).
std::size_t first_invalid_utf8(std::string_view text);

/// "a, b or c".
std::string alternatives(std::span<const std::string> words);
/// "1 rank", "2 ranks", "3 microbatches".
std::string plural(std::int64_t count, std::string_view noun);

std::string to_lower(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace tessera
