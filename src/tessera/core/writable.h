#pragma once

#include <filesystem>
#include <string>

namespace tessera {

/// Why this process cannot create anything in `directory`, or make the directory itself where it does not exist yet; empty when it can. Looks, and
/// creates nothing: what it finds may have changed a moment later.
std::string why_not_writable(const std::filesystem::path& directory);

/// Throws UserError unless something can be created next to `path`, in a directory that exists. `path` itself is not looked at.
void check_can_create(const std::filesystem::path& path);

}  // namespace tessera
