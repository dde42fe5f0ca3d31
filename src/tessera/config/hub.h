#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tessera/config/interpolate.h"

namespace tessera::config {

/// "org/name" or "name" as Hugging Face writes repositories, and not a file by its ending. Only the text is looked at, not the disk.
bool looks_like_hub_name(const std::string& text);

/// Where a model or tokenizer named in a recipe lies: the path itself when it exists, else the newest snapshot in the local hub cache
/// ($HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub). Nothing is downloaded.
std::optional<std::filesystem::path> find_on_disk(const std::string& name, const Environment& environment);

}  // namespace tessera::config
