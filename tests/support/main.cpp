// The main function of every test program: GoogleTest's, and one more option.
//   --full   also run the long tests, whose names begin with LONG_
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace {

/// Removes --full from the arguments; returns whether it was there.
bool take_full_option(int& count, char** arguments) {
  char** const end = arguments + count;
  char** const kept = std::remove_if(arguments + 1, end, [](const char* argument) { return std::string_view(argument) == "--full"; });
  const bool found = kept != end;
  count = static_cast<int>(kept - arguments);
  return found;
}

/// `filter` without the tests, plain or parameterised, whose names begin with LONG_.
std::string without_long_tests(const std::string& filter) { return filter + (filter.find('-') == std::string::npos ? "-" : ":") + "*.LONG_*"; }

}  // namespace

int main(int count, char** arguments) {
  const bool full = take_full_option(count, arguments);
  testing::InitGoogleMock(&count, arguments);
  if (!full) testing::GTEST_FLAG(filter) = without_long_tests(testing::GTEST_FLAG(filter));
  return RUN_ALL_TESTS();
}
