#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "tessera/core/file.h"
#include "tessera/data/dataset/megatron_sampling.h"

namespace tessera::data {

/// A MegatronSampling in a mapped file: it takes memory only where it is read, and none that other processes with the same file do not share.
struct StoredSampling {
  MappedFile file;
  std::span<const std::int32_t> documents;
  std::span<const std::int64_t> samples;
  std::span<const std::int64_t> shuffle;

  std::int64_t size() const { return std::ssize(shuffle); }
};

/// The sampling that `description` names: read from `directory` when an earlier run left it there, else made and left there (written aside and
/// renamed, so that runs that start together do no harm). A file that is damaged is made again. An empty directory: always made, and kept in a
/// temporary file without a name.
StoredSampling cached_sampling(const std::filesystem::path& directory, const std::string& description, const std::function<MegatronSampling()>& make);

}  // namespace tessera::data
