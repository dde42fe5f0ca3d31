#include "tessera/train/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "support/support.h"

namespace tessera::train {
namespace {

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
}

/// Reads little-endian numbers and protocol buffer fields from the front of a string.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }
  std::string_view take(std::size_t size) {
    EXPECT_LE(size, bytes_.size());
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<std::uint8_t>();
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }

 private:
  std::string_view bytes_;
};

/// tensorflow.Event: wall_time = 1 (double), step = 2, file_version = 3, summary = 5 { value = 1 { tag = 1, simple_value = 2 (float) } }.
struct Event {
  double wall_time = 0.0;
  std::uint64_t step = 0;
  std::string file_version;
  std::map<std::string, float> scalars;
};

void read_value(std::string_view bytes, Event& event) {
  Reader reader(bytes);
  std::string tag;
  while (!reader.done()) {
    const std::uint64_t key = reader.varint();
    if (key == (1 << 3 | 2)) {
      tag = reader.take(reader.varint());
    } else {
      ASSERT_EQ(key, 2U << 3 | 5U);
      event.scalars[tag] = reader.number<float>();
    }
  }
}

Event read_event(std::string_view bytes) {
  Event event;
  Reader reader(bytes);
  while (!reader.done()) {
    const std::uint64_t key = reader.varint();
    if (key == (1 << 3 | 1)) {
      event.wall_time = reader.number<double>();
    } else if (key == 2 << 3) {
      event.step = reader.varint();
    } else if (key == (3 << 3 | 2)) {
      event.file_version = reader.take(reader.varint());
    } else {
      EXPECT_EQ(key, 5U << 3 | 2U);
      Reader summary(reader.take(reader.varint()));
      while (!summary.done()) {
        EXPECT_EQ(summary.varint(), 1U << 3 | 2U);
        read_value(summary.take(summary.varint()), event);
      }
    }
  }
  return event;
}

std::uint32_t masked(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

/// The records of a TFRecord file, checksums checked.
std::vector<Event> read_events(const std::string& file) {
  std::vector<Event> events;
  Reader reader(file);
  while (!reader.done()) {
    const std::string_view length = reader.take(8);
    EXPECT_EQ(reader.number<std::uint32_t>(), masked(length));
    const std::string_view record = reader.take(Reader(length).number<std::uint64_t>());
    EXPECT_EQ(reader.number<std::uint32_t>(), masked(record));
    events.push_back(read_event(record));
  }
  return events;
}

TEST(TensorBoard, WritesEventsThatReadBack) {
  const test::TemporaryDirectory directory;
  TensorBoardWriter writer(directory / "new/tensorboard");
  writer.write(1, {{"loss", 2.5}, {"lr", 1e-5}});
  writer.write(300, {{"loss", 2.25}});
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "new/tensorboard")) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_THAT(files[0].filename().string(), testing::StartsWith("events.out.tfevents."));
  const std::vector<Event> events = read_events(test::read_file(files[0]));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 1U);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{{"loss", 2.5F}, {"lr", 1e-5F}}));
  EXPECT_EQ(events[2].step, 300U);
  EXPECT_EQ(events[2].scalars.at("loss"), 2.25F);
  EXPECT_GE(events[2].wall_time, events[0].wall_time);
  EXPECT_GT(events[0].wall_time, 1.7e9);
}

TEST(TensorBoard, SaysWhereItCannotWrite) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "file", "");
  EXPECT_THAT(test::error_of([&] { TensorBoardWriter(directory / "file" / "tensorboard"); }),
              testing::HasSubstr("cannot create the TensorBoard event file"));
}

}  // namespace
}  // namespace tessera::train
