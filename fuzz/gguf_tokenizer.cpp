#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "target.h"
#include "tessera/data/tokenizer/sources.h"
#include "tokenizer_use.h"

namespace {

/// The input as a file in memory, because a GGUF file is read by its path.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : descriptor_(::memfd_create("input.gguf", MFD_CLOEXEC)) {
    TESSERA_ASSERT(::write(descriptor_, data, size) == static_cast<ssize_t>(size), "no room for the input");
  }
  ~MemoryFile() { ::close(descriptor_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(data, size);
  return tessera::fuzz::refuses_cleanly([&] { tessera::fuzz::use_tokenizer(tessera::data::from_gguf(tessera::formats::GgufFile(file.path()))); });
}
