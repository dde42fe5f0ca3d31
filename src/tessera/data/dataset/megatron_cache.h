#pragma once

#include <filesystem>
#include <functional>

#include "tessera/data/dataset/megatron_sampling.h"

namespace tessera::data {

/// The sampling that `description` names: read from `directory` when an earlier run left it there, else made and left there (written aside and
/// renamed, so that runs that start together do no harm). A file that is damaged is made again. An empty directory: always made.
MegatronSampling cached_sampling(const std::filesystem::path& directory, const std::string& description,
                                 const std::function<MegatronSampling()>& make);

}  // namespace tessera::data
