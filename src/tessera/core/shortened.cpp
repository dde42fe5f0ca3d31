#include "tessera/core/shortened.h"

#include <string>
#include <system_error>

#include "tessera/core/error.h"

namespace tessera {

void refuse_shortened(const MappedFile& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file.path(), error);
  if (error || size >= file.bytes().size()) return;  // a file removed from its folder stays whole in its mapping
  throw UserError(
      {file.path().string(),
       "the file has become shorter while it is in use: " + std::to_string(size) + " bytes instead of " + std::to_string(file.bytes().size()),
       "data files do not change during a run", "restore the file, and begin again from the last checkpoint"});
}

}  // namespace tessera
