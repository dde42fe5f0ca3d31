#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace tessera::train {

/// Writes scalars as a TensorBoard event file: TFRecord frames (length, masked CRC-32C, payload, masked CRC-32C) of tensorflow.Event protocol
/// buffers.
class TensorBoardWriter {
 public:
  /// Creates directory/events.out.tfevents.TIME.HOST.PID; Failure when it cannot.
  explicit TensorBoardWriter(const std::filesystem::path& directory);
  /// One event with all `scalars` (tag → value) of a step, on disk after the call.
  void write(std::int64_t step, const std::map<std::string, double>& scalars);

 private:
  void write_record(const std::string& event);

  std::filesystem::path path_;
  std::ofstream stream_;
};

/// CRC-32C (Castagnoli, polynomial 0x1EDC6F41 reflected) of the bytes.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace tessera::train
