#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "tessera/core/shortened.h"

namespace tessera::formats {

/// A NanoGPT shard: 256 little-endian int32 of header (magic 278895051 with the bytes of a token in header[3], or 20240520 with two), version 1 in
/// header[1], the number of tokens in header[2], then the tokens (modded-nanogpt's and llm.c's data scripts). The file is mapped.
class NanogptShard {
 public:
  /// UserError for anything else, and when the file is shorter than its header says.
  explicit NanogptShard(const std::filesystem::path& path);
  std::int64_t num_tokens() const { return num_tokens_; }
  /// UserError when the file has become shorter since.
  void refuse_shortened() const { tessera::refuse_shortened(file_); }
  /// Tokens [begin, begin + out.size()), which lie in the shard.
  void read(std::int64_t begin, std::span<std::int64_t> out) const;
  /// The first position in [begin, end) that holds `token`; end when none does.
  std::int64_t find(std::int64_t token, std::int64_t begin, std::int64_t end) const;
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  MappedFile file_;
  std::int64_t num_tokens_ = 0;
  std::int64_t token_bytes_ = 2;
};

/// The positions of BOS tokens from the file next to a shard (NAME.bos.idx: int32 each), ascending; nullopt without one. UserError when they do not
/// ascend inside the shard.
std::optional<std::vector<std::int64_t>> read_bos_index(const NanogptShard& shard);

}  // namespace tessera::formats
