#pragma once

#include <optional>
#include <string>
#include <string_view>

/// GPT-2's printable alphabet for bytes: printable Latin-1 characters stand for themselves, the other bytes for U+0100 onwards in order.
namespace tessera::data {

/// One character per byte.
std::string to_byte_alphabet(std::string_view bytes);
/// The bytes that `text` spells, or nullopt when a character is not of the alphabet. `text` must be valid UTF-8.
std::optional<std::string> from_byte_alphabet(std::string_view text);

/// What a byte token "<0x0A>" stands for; nullopt for any other spelling.
std::optional<unsigned char> byte_of_token(std::string_view token);
/// The spelling of a byte token: "<0x0A>".
std::string byte_token(unsigned char byte);

}  // namespace tessera::data
