#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/mpi_backend.h"

/// Tests of several ranks. tests/distributed/*_test.cpp become one program, which scripts/run_tests.py starts under mpirun with 1, 2, 3, 4 and 8
/// ranks: every rank runs every test, and a test passes when it passes at all ranks. By hand:
///   mpirun -n 4 --oversubscribe --allow-run-as-root --bind-to none build/tests/distributed_tests --gtest_filter='Some.Test'
/// TEST(Suite, Name) runs at every number of ranks, RANKS_TEST(Suite, Name, 2, 4) at those only (elsewhere it does not exist: it is not skipped).
/// A test makes its own communicators, from `backend()`. Assertions may fail at one rank alone: the others' operations then time out, and after the
/// test all ranks stop.
namespace tessera::test {

/// The ranks of this run. Operations time out after 20 s.
comm::MpiBackend& backend();
/// A new communicator over all ranks.
std::unique_ptr<comm::Communicator> world_communicator();
/// For RANKS_TEST, and for TEST_P suites ("Suite.Name" without prefix and parameter): remembers the numbers of ranks at which a test runs.
bool runs_only_with(const std::string& test, std::vector<int> sizes);

}  // namespace tessera::test

#define RANKS_TEST(suite, name, ...)                                                                                                         \
  [[maybe_unused]] static const bool suite##name##_sizes = ::tessera::test::runs_only_with(#suite "." #name, std::vector<int>{__VA_ARGS__}); \
  TEST(suite, name)
