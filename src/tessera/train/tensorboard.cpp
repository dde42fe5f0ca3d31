#include "tessera/train/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>

#include "tessera/core/error.h"

namespace tessera::train {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}

/// TFRecord stores checksums rotated and offset, so that a checksum of data that holds checksums stays meaningful.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

// Protocol buffer fields: a key (number << 3 | wire type), then the value.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string varint_field(int number, std::uint64_t value) { return varint(static_cast<std::uint64_t>(number) << 3) + varint(value); }
std::string double_field(int number, double value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 1) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(int number, float value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 5) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string bytes_field(int number, const std::string& value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(value.size()) + value;
}

double wall_time() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto table = crc_table();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return crc ^ 0xFFFFFFFFU;
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& directory)
    : path_(directory / fmt::format("events.out.tfevents.{}.{}.{}", static_cast<std::int64_t>(wall_time()), host_name(), ::getpid())) {
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  stream_.open(path_, std::ios::binary);
  if (!stream_)
    throw Failure({path_.string(), "cannot create the TensorBoard event file", "", "set logging.tensorboard: false or choose another directory"});
  write_record(double_field(1, wall_time()) + bytes_field(3, "brain.Event:2"));
}

void TensorBoardWriter::write(std::int64_t step, const std::map<std::string, double>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) summary += bytes_field(1, bytes_field(1, tag) + float_field(2, static_cast<float>(value)));
  write_record(double_field(1, wall_time()) + varint_field(2, static_cast<std::uint64_t>(step)) + bytes_field(5, summary));
}

void TensorBoardWriter::write_record(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  stream_ << length << little_endian(masked(crc32c(length))) << event << little_endian(masked(crc32c(event))) << std::flush;
  if (!stream_) throw Failure({path_.string(), "cannot write the TensorBoard event", "", "free some space"});
}

}  // namespace tessera::train
