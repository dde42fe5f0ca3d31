#include "tessera/core/version.h"

namespace tessera {

std::string_view version() { return TESSERA_VERSION; }

}  // namespace tessera
