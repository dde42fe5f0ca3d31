#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "tessera/core/temporary.h"

namespace tessera::test {

class TemporaryDirectory : public tessera::TemporaryDirectory {
 public:
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }
};

/// The checkout.
std::filesystem::path source_directory();
/// Files committed under tests/data.
std::filesystem::path test_data(const std::string& relative);
/// Large vectors beside the checkout (../shared), or a path that does not exist. Use with TESSERA_SKIP_WITHOUT.
std::filesystem::path shared_data(const std::string& relative);

void write_file(const std::filesystem::path& path, std::string_view content);
std::string read_file(const std::filesystem::path& path);

/// Bytes of this process in memory now.
std::uint64_t resident_bytes();

/// The message of the UserError or Failure that `action` throws; fails the test when it throws nothing.
std::string error_of(const std::function<void()>& action);

}  // namespace tessera::test

/// Skips (and is counted as skipped) when the vectors are not there.
#define TESSERA_SKIP_WITHOUT(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "SKIPPED: no " << (path).string()
