#include "tessera/data/dataset/megatron_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/random.h"
#include "tessera/core/temporary.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

// The file: a header, the three arrays, which it aligns, and the description.
constexpr std::array<char, 24> kMagic = {"tessera sampling 2\n"};
struct Header {
  std::array<char, 24> magic = kMagic;
  std::uint64_t num_shuffled = 0;
  std::uint64_t num_samples = 0;
  std::uint64_t num_documents = 0;
};
static_assert(sizeof(Header) % alignof(std::int64_t) == 0);

/// The next `count` values; nothing, and `bytes` as it was, when there are fewer.
template <class Value>
std::span<const Value> take(std::span<const std::byte>& bytes, std::uint64_t count) {
  if (count > bytes.size() / sizeof(Value)) return {};
  const auto* const values = reinterpret_cast<const Value*>(bytes.data());
  bytes = bytes.subspan(count * sizeof(Value));
  return {values, count};
}

std::optional<StoredSampling> read(MappedFile file, const std::string& description) {
  std::span<const std::byte> bytes = file.bytes();
  const std::span<const Header> header = take<Header>(bytes, 1);
  if (header.empty() || header.front().magic != kMagic) return std::nullopt;
  const Header& counts = header.front();
  const auto shuffle = take<std::int64_t>(bytes, counts.num_shuffled);
  const auto samples = take<std::int64_t>(bytes, counts.num_samples);
  const auto documents = take<std::int32_t>(bytes, counts.num_documents);
  const bool whole = shuffle.size() == counts.num_shuffled && samples.size() == counts.num_samples && documents.size() == counts.num_documents;
  if (!whole || std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) != description) return std::nullopt;
  return StoredSampling{std::move(file), documents, samples, shuffle};
}

/// Hands the file's bytes to `write`, part by part.
void write_parts(const std::string& description, const MegatronSampling& sampling, const std::function<void(std::span<const std::byte>)>& write) {
  const Header header{.num_shuffled = sampling.shuffle.size(), .num_samples = sampling.samples.size(), .num_documents = sampling.documents.size()};
  write(std::as_bytes(std::span(&header, 1)));
  write(std::as_bytes(std::span(sampling.shuffle)));
  write(std::as_bytes(std::span(sampling.samples)));
  write(std::as_bytes(std::span(sampling.documents)));
  write(std::as_bytes(std::span(description)));
}

void keep(const fs::path& path, const std::string& description, const MegatronSampling& sampling) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error)
    throw UserError({path.parent_path().string(), "cannot create the directory: " + error.message(), "", "choose another index_mapping_dir"});
  const auto operations = posix_file_operations();
  const fs::path aside = path.string() + fmt::format(".{}", ::getpid());
  FileWriter writer(*operations, aside);
  write_parts(description, sampling, [&](std::span<const std::byte> bytes) { writer.write(bytes); });
  writer.finish();
  operations->rename(aside, path);
}

StoredSampling opened(const fs::path& path, const std::string& description) {
  std::optional<StoredSampling> sampling = read(MappedFile(path), description);
  if (!sampling) throw Failure({path.string(), "what was just written does not read back the same", "", "check the disk"});
  return *std::move(sampling);
}

}  // namespace

StoredSampling cached_sampling(const fs::path& directory, const std::string& description, const std::function<MegatronSampling()>& make) {
  if (directory.empty()) {
    TemporaryFile file("samples are listed there");
    write_parts(description, make(),
                [&](std::span<const std::byte> bytes) { file.write(std::span(reinterpret_cast<const char*>(bytes.data()), bytes.size())); });
    return opened(file.path(), description);
  }
  const fs::path path = directory / fmt::format("{:016x}.sampling", hash_name(description));
  if (fs::exists(path))
    if (auto known = read(MappedFile(path), description)) return *std::move(known);
  keep(path, description, make());
  return opened(path, description);
}

}  // namespace tessera::data
