#include "tessera/formats/nanogpt.h"

#include <fmt/format.h>

#include <cstring>

#include "tessera/core/error.h"
#include "tessera/formats/byte_reader.h"

namespace tessera::formats {
namespace {

constexpr std::int32_t kNanogptMagic = 278'895'051;
constexpr std::int32_t kLegacyMagic = 20'240'520;
constexpr const char* kNanogptFix = "check that the file is a shard of tokens; if so, download or copy it again";
constexpr std::size_t kHeaderBytes = 256 * sizeof(std::int32_t);

template <class Stored>
void widen(const std::byte* from, std::span<std::int64_t> out) {
  for (std::size_t t = 0; t < out.size(); ++t) {
    Stored token;
    std::memcpy(&token, from + t * sizeof(Stored), sizeof(Stored));
    out[t] = token;
  }
}

}  // namespace

NanogptShard::NanogptShard(const std::filesystem::path& path) : file_(path) {
  ByteReader reader(file_.bytes(), path.string());
  const auto magic = reader.read<std::int32_t>();
  const auto version = reader.read<std::int32_t>();
  num_tokens_ = reader.read<std::int32_t>();
  const auto given_bytes = reader.read<std::int32_t>();
  if (magic != kNanogptMagic && magic != kLegacyMagic)
    throw UserError(
        {path.string(), fmt::format("not a NanoGPT shard: it begins with {}", magic), "shards begin with 278895051 or 20240520", kNanogptFix});
  token_bytes_ = magic == kNanogptMagic ? given_bytes : 2;
  if (version != 1 || num_tokens_ < 0 || (token_bytes_ != 2 && token_bytes_ != 4)) {
    throw UserError({path.string(), fmt::format("the header says version {}, {} tokens of {} bytes", version, num_tokens_, token_bytes_),
                     "version is 1, tokens have 2 or 4 bytes", kNanogptFix});
  }
  const std::size_t needed = kHeaderBytes + static_cast<std::size_t>(num_tokens_ * token_bytes_);
  if (file_.bytes().size() < needed) {
    throw UserError({path.string(), fmt::format("the file has {} bytes, its header promises {}", file_.bytes().size(), needed), "",
                     "the file is truncated: download or copy it again"});
  }
}

void NanogptShard::read(std::int64_t begin, std::span<std::int64_t> out) const {
  const std::byte* const from = file_.bytes().data() + kHeaderBytes + begin * token_bytes_;
  if (token_bytes_ == 2) {
    widen<std::uint16_t>(from, out);
  } else {
    widen<std::uint32_t>(from, out);
  }
}

std::int64_t NanogptShard::find(std::int64_t token, std::int64_t begin, std::int64_t end) const {
  std::int64_t found = 0;
  for (std::int64_t position = begin; position < end; ++position) {
    read(position, std::span(&found, 1));
    if (found == token) return position;
  }
  return end;
}

std::optional<std::vector<std::int64_t>> read_bos_index(const NanogptShard& shard) {
  std::filesystem::path path = shard.path();
  path.replace_extension(".bos.idx");
  if (!std::filesystem::exists(path)) return std::nullopt;
  const MappedFile file(path);
  std::vector<std::int64_t> positions(file.bytes().size() / sizeof(std::int32_t));
  widen<std::int32_t>(file.bytes().data(), positions);
  std::int64_t previous = -1;
  for (const std::int64_t position : positions) {
    if (position <= previous || position >= shard.num_tokens()) {
      throw UserError({path.string(), fmt::format("position {} follows {} in a shard of {} tokens", position, previous, shard.num_tokens()),
                       "the positions of BOS tokens ascend inside the shard", "make the index again, or remove it"});
    }
    previous = position;
  }
  return positions;
}

}  // namespace tessera::formats
