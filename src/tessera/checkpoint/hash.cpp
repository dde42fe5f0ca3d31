#include "tessera/checkpoint/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <future>
#include <thread>

#include "tessera/core/file.h"

namespace tessera::checkpoint {
namespace {

constexpr std::size_t kWorthAThread = std::size_t{1} << 20;
constexpr std::size_t kBlocksAtOnce = 16;

std::string hex_of(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

void update_with(auto& hasher, std::span<const std::byte> bytes, const std::function<void()>& work) {
  const auto policy = bytes.size() >= kWorthAThread ? std::launch::async : std::launch::deferred;
  std::future<void> hashing = std::async(policy, [&hasher, bytes] { hasher.update(bytes); });
  work();
  hashing.get();
}

/// Blocks [first, last) of the file.
void hash_blocks(const MappedFile& file, std::size_t first, std::size_t last, BlockHashes& hashes) {
  for (std::size_t block = first; block < last; ++block) {
    const std::size_t begin = block * kBlockBytes;
    const auto bytes = file.bytes().subspan(begin, std::min<std::size_t>(kBlockBytes, file.bytes().size() - begin));
    hashes[block] = XXH3_64bits(bytes.data(), bytes.size());
    if (block % kBlocksAtOnce == kBlocksAtOnce - 1) file.drop(begin + kBlockBytes - kBlocksAtOnce * kBlockBytes, kBlocksAtOnce * kBlockBytes);
  }
}

}  // namespace

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() { XXH3_64bits_reset(xxh); }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(std::span<const std::byte> bytes) { XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size()); }

std::uint64_t Hasher::digest() const { return XXH3_64bits_digest(state_->xxh); }

std::string Hasher::hex() const { return hex_of(digest()); }

void Hasher::reset() { XXH3_64bits_reset(state_->xxh); }

std::string hash_hex(std::span<const std::byte> bytes) { return hex_of(XXH3_64bits(bytes.data(), bytes.size())); }

void FileHasher::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), kBlockBytes - size_ % kBlockBytes));
    block_.update(part);
    size_ += part.size();
    bytes = bytes.subspan(part.size());
    if (size_ % kBlockBytes != 0) continue;
    complete_.push_back(block_.digest());
    block_.reset();
  }
}

BlockHashes FileHasher::blocks() const {
  BlockHashes blocks = complete_;
  if (size_ % kBlockBytes != 0) blocks.push_back(block_.digest());
  return blocks;
}

std::string FileHasher::hex() const { return file_hash_hex(blocks()); }

std::string file_hash_hex(const BlockHashes& blocks) { return hash_hex(std::as_bytes(std::span(blocks))); }

std::string hash_of_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::size_t num_blocks = (file.bytes().size() + kBlockBytes - 1) / kBlockBytes;
  BlockHashes hashes(num_blocks);
  const std::size_t num_threads = std::clamp<std::size_t>(num_blocks / kBlocksAtOnce, 1, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::future<void>> others;
  for (std::size_t thread = 1; thread < num_threads; ++thread)
    others.push_back(std::async(
        std::launch::async, [&, thread] { hash_blocks(file, num_blocks * thread / num_threads, num_blocks * (thread + 1) / num_threads, hashes); }));
  hash_blocks(file, 0, num_blocks / num_threads, hashes);
  for (std::future<void>& other : others) other.get();
  return file_hash_hex(hashes);
}

void update_beside(Hasher& hasher, std::span<const std::byte> bytes, const std::function<void()>& work) { update_with(hasher, bytes, work); }
void update_beside(FileHasher& hasher, std::span<const std::byte> bytes, const std::function<void()>& work) { update_with(hasher, bytes, work); }

}  // namespace tessera::checkpoint
