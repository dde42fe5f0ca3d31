#include "tessera/data/tokenizer/byte_level.h"

#include <fmt/format.h>

#include <array>

#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data {
namespace {

constexpr char32_t kFirstStandIn = 0x100;

constexpr bool stands_for_itself(char32_t byte) { return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE; }

constexpr std::array<char32_t, 256> characters_of_bytes() {
  std::array<char32_t, 256> characters{};
  char32_t next = kFirstStandIn;
  for (char32_t byte = 0; byte < 256; ++byte) characters[byte] = stands_for_itself(byte) ? byte : next++;
  return characters;
}

constexpr std::array<char32_t, 256> kCharacters = characters_of_bytes();
constexpr std::size_t kNumCharacters = 0x144;  // the last stand-in is U+0143

/// The byte of each character of the alphabet, −1 for other characters.
constexpr std::array<int, kNumCharacters> bytes_of_characters() {
  std::array<int, kNumCharacters> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[kCharacters[static_cast<std::size_t>(byte)]] = byte;
  return bytes;
}

constexpr std::array<int, kNumCharacters> kBytes = bytes_of_characters();

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(text, kCharacters[static_cast<unsigned char>(byte)]);
  return text;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, num_bytes] = code_point_at(text, i);
    if (value >= kNumCharacters || kBytes[value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[value]));
    i += num_bytes;
  }
  return bytes;
}

std::optional<unsigned char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const int high = hex_digit(token[3]);
  const int low = hex_digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

std::string byte_token(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace tessera::data
