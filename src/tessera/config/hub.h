#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/core/environment.h"

namespace tessera::config {

/// The rule that an absent model or tokenizer breaks.
inline constexpr std::string_view kModelsAreLocal =
    "models and tokenizers are read from a directory or the local hub cache; only data sets are downloaded";

/// "org/name" or "name" as Hugging Face writes repositories, and not a file by its ending. Only the text is looked at, not the disk.
bool looks_like_hub_name(const std::string& text);

/// $HF_HOME, or where Hugging Face's libraries put it: $XDG_CACHE_HOME/huggingface, ~/.cache/huggingface.
std::filesystem::path huggingface_home(const Environment& environment);
/// $HF_HUB_CACHE, or the home's hub/.
std::filesystem::path hub_cache(const Environment& environment);
/// Whether $HF_HUB_OFFLINE (or $HF_DATASETS_OFFLINE) forbids the network.
bool is_offline(const Environment& environment);
/// The folder of a repository in the hub cache: models--org--name, datasets--org--name.
std::filesystem::path repository_folder(std::string_view kind, const std::string& name, const Environment& environment);

/// A data set named in a recipe: the path itself when it exists, else the newest snapshot in the local hub cache, else what Hugging Face's `datasets`
/// has unpacked (its newest folder of .arrow files). Nothing is downloaded.
std::optional<std::filesystem::path> find_data_on_disk(const std::string& name, const Environment& environment);

/// Where a model or tokenizer named in a recipe lies: the path itself when it exists, else the newest snapshot in the local hub cache
/// ($HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub). Nothing is downloaded.
std::optional<std::filesystem::path> find_on_disk(const std::string& name, const Environment& environment);

}  // namespace tessera::config
