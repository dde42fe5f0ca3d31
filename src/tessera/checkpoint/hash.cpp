#include "tessera/checkpoint/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace tessera::checkpoint {

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

std::string Hasher::hex() const { return fmt::format("{:016x}", XXH3_64bits_digest(state_->xxh)); }

std::future<void> update_in_background(Hasher& hasher, std::span<const std::byte> bytes) {
  constexpr std::size_t kWorthAThread = std::size_t{1} << 20;
  if (bytes.size() >= kWorthAThread) return std::async(std::launch::async, [&hasher, bytes] { hasher.update(bytes); });
  hasher.update(bytes);
  return {};
}

std::string hash_hex(std::span<const std::byte> bytes) { return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size())); }

}  // namespace tessera::checkpoint
