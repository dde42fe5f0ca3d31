#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera::checkpoint {

/// XXH3 with 64 bits over bytes that arrive piece by piece.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;
  /// 16 lower-case hexadecimal digits.
  std::string hex() const;
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of one piece.
std::string hash_hex(std::span<const std::byte> bytes);

/// A file is hashed in blocks, so that several ranks or threads can each do a part: its hash is the XXH3 of the little-endian XXH3s of its blocks.
inline constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
using BlockHashes = std::vector<std::uint64_t>;

/// The blocks of a file that is written from front to back, or of a part of one that begins where a block does.
class FileHasher {
 public:
  void update(std::span<const std::byte> bytes);
  std::uint64_t size() const { return size_; }
  /// One hash for each block begun so far.
  BlockHashes blocks() const;
  std::string hex() const;

 private:
  Hasher block_;
  BlockHashes complete_;
  std::uint64_t size_ = 0;
};
/// The hash of a file with these blocks.
std::string file_hash_hex(const BlockHashes& blocks);
/// The hash of a file on disk, made by several threads. UserError when it cannot be read.
std::string hash_of_file(const std::filesystem::path& path);

/// hasher.update(bytes) in another thread while `work` runs in this one; one after the other when the bytes are few.
void update_beside(Hasher& hasher, std::span<const std::byte> bytes, const std::function<void()>& work);
void update_beside(FileHasher& hasher, std::span<const std::byte> bytes, const std::function<void()>& work);

}  // namespace tessera::checkpoint
