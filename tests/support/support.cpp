#include "support/support.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "tessera/core/error.h"

namespace tessera::test {

std::filesystem::path source_directory() { return TESSERA_SOURCE_DIR; }

std::filesystem::path test_data(const std::string& relative) { return std::filesystem::path(TESSERA_SOURCE_DIR) / "tests/data" / relative; }

std::filesystem::path shared_data(const std::string& relative) {
  return std::filesystem::path(TESSERA_SOURCE_DIR).parent_path() / "shared" / relative;
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::uint64_t resident_bytes() {
  std::uint64_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  } catch (const Failure& failure) {
    return failure.what();
  }
  ADD_FAILURE() << "expected a UserError or a Failure";
  return "";
}

}  // namespace tessera::test
