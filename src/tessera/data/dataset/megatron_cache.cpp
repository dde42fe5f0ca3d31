#include "tessera/data/dataset/megatron_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/random.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

// The file: magic, the length of the description and the three arrays' lengths (u64 each), then description and arrays.
constexpr std::string_view kMagic = "tessera sampling 1\n";

template <class Value>
bool take(std::string_view& bytes, std::vector<Value>& values, std::uint64_t count) {
  if (count > bytes.size() / sizeof(Value)) return false;
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(Value));
  bytes.remove_prefix(count * sizeof(Value));
  return true;
}

std::optional<MegatronSampling> read(const fs::path& path, const std::string& description) {
  if (!fs::exists(path)) return std::nullopt;
  const MappedFile file(path);
  std::string_view bytes = file.text();
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  bytes.remove_prefix(kMagic.size());
  std::vector<std::uint64_t> counts;
  if (!take(bytes, counts, 4) || !bytes.substr(0, counts[0]).starts_with(description) || counts[0] != description.size()) return std::nullopt;
  bytes.remove_prefix(counts[0]);
  MegatronSampling sampling;
  const bool whole =
      take(bytes, sampling.documents, counts[1]) && take(bytes, sampling.samples, counts[2]) && take(bytes, sampling.shuffle, counts[3]);
  return whole && bytes.empty() ? std::optional(std::move(sampling)) : std::nullopt;
}

void write(const fs::path& path, const std::string& description, const MegatronSampling& sampling) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error)
    throw UserError({path.parent_path().string(), "cannot create the directory: " + error.message(), "", "choose another index_mapping_dir"});
  const auto operations = posix_file_operations();
  const fs::path aside = path.string() + fmt::format(".{}", ::getpid());
  FileWriter writer(*operations, aside);
  writer.write(kMagic);
  const std::uint64_t counts[] = {description.size(), sampling.documents.size(), sampling.samples.size(), sampling.shuffle.size()};
  writer.write(std::as_bytes(std::span(counts)));
  writer.write(description);
  writer.write(std::as_bytes(std::span(sampling.documents)));
  writer.write(std::as_bytes(std::span(sampling.samples)));
  writer.write(std::as_bytes(std::span(sampling.shuffle)));
  writer.finish();
  operations->rename(aside, path);
}

}  // namespace

MegatronSampling cached_sampling(const fs::path& directory, const std::string& description, const std::function<MegatronSampling()>& make) {
  if (directory.empty()) return make();
  const fs::path path = directory / fmt::format("{:016x}.sampling", hash_name(description));
  if (auto known = read(path, description)) return *std::move(known);
  MegatronSampling sampling = make();
  write(path, description, sampling);
  return sampling;
}

}  // namespace tessera::data
