#include "tessera/core/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tessera {

#if defined(__x86_64__)
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
/// Pages copied side by side: more streams from memory at once than the hardware would follow in one page.
constexpr std::size_t kPages = 4;

/// `to` must be aligned to 16 bytes.
void stream_line(std::byte* to, const std::byte* from) {
  const auto* source = reinterpret_cast<const __m128i*>(from);
  auto* destination = reinterpret_cast<__m128i*>(to);
  const __m128i parts[] = {_mm_loadu_si128(source), _mm_loadu_si128(source + 1), _mm_loadu_si128(source + 2), _mm_loadu_si128(source + 3)};
  for (std::size_t i = 0; i < 4; ++i) _mm_stream_si128(destination + i, parts[i]);
}

}  // namespace

void stream_copy(std::byte* to, const std::byte* from, std::size_t size) {
  if (size == 0) return;  // memcpy must not be given null pointers, not even for no bytes
  const std::size_t head = std::min(size, static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(to) % kLine));
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; size - done >= kPages * kPage; done += kPages * kPage)
    for (std::size_t line = 0; line < kPage; line += kLine)
      for (std::size_t page = 0; page < kPages; ++page) stream_line(to + done + page * kPage + line, from + done + page * kPage + line);
  _mm_sfence();  // other threads see streamed stores in order only after this
  std::memcpy(to + done, from + done, size - done);
}
#else
void stream_copy(std::byte* to, const std::byte* from, std::size_t size) {
  if (size > 0) std::memcpy(to, from, size);
}
#endif

}  // namespace tessera
