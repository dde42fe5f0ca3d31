#pragma once

#include <filesystem>
#include <string>

namespace tessera::data {

/// SHA-256 of a file, in lowercase hexadecimal.
std::string sha256_of(const std::filesystem::path& file);
/// The name git gives a file: SHA-1 of "blob SIZE\0" and its bytes.
std::string git_sum_of(const std::filesystem::path& file);

}  // namespace tessera::data
