#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/cli/cli.h"

namespace tessera::test {

struct CommandResult {
  int status = 0;
  std::string output;
  std::string error;
};

/// Runs `tessera ARGUMENTS…` in this process.
inline CommandResult run_tessera(std::vector<std::string> arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  CommandResult result;
  result.status = cli::run(std::move(arguments));
  result.output = testing::internal::GetCapturedStdout();
  result.error = testing::internal::GetCapturedStderr();
  return result;
}

}  // namespace tessera::test
