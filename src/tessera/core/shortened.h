#pragma once

#include "tessera/core/file.h"

namespace tessera {

/// UserError when the file on disk is now shorter than its mapping: reading beyond its end would kill the process (SIGBUS). A system call; readers
/// ask before each record of a file that others may still write or copy.
void refuse_shortened(const MappedFile& file);

}  // namespace tessera
