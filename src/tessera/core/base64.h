#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// Standard base64 (RFC 4648, "+/" and "=").
std::string base64_encode(std::string_view bytes);
/// nullopt for text that is not base64; missing padding is accepted.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace tessera
