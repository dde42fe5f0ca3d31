#pragma once

#include <filesystem>
#include <string>

#include "tessera/core/environment.h"

namespace tessera::data {

/// What to take of a data set on the hub.
struct HubRequest {
  std::string name;           ///< "org/name" or "name"
  std::string configuration;  ///< a folder of its files; empty: all
  std::string split;          ///< "train", "train[:128]": files that name this split, when any name a split; empty: all
};

/// The folder with a data set of the hub: its snapshot in the hub cache, to which the files asked for have been downloaded (over HTTPS from
/// $HF_ENDPOINT or huggingface.co, with $HF_TOKEN or the token that `hf auth login` left, showing progress). The layout is that of Hugging Face's own
/// libraries, which find the files too. An interrupted download resumes where it ended, and every file is checked against the hub's SHA-256 (or
/// git) sum. When several processes need the same data set, one downloads it and the others wait. With $HF_HUB_OFFLINE, and when the hub cannot be
/// reached, what is in the cache is used. UserError, saying how to fetch the files by hand, when there is nothing.
std::filesystem::path hub_dataset(const HubRequest& request, const Environment& environment);

}  // namespace tessera::data
