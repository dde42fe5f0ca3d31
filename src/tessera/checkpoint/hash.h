#pragma once

#include <cstddef>
#include <future>
#include <memory>
#include <span>
#include <string>

namespace tessera::checkpoint {

/// XXH3 with 64 bits over bytes that arrive piece by piece.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void update(std::span<const std::byte> bytes);
  /// 16 lower-case hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// hasher.update(bytes) in another thread, which destroying the result waits for; at once when the bytes are few. Both must live that long.
[[nodiscard]] std::future<void> update_in_background(Hasher& hasher, std::span<const std::byte> bytes);

/// Of one piece.
std::string hash_hex(std::span<const std::byte> bytes);

}  // namespace tessera::checkpoint
