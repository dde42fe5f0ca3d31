#include "tessera/formats/decompress.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/temporary.h"

namespace tessera::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = std::size_t{1} << 18;

[[noreturn]] void refuse(const fs::path& path, std::size_t offset, const std::string& why) {
  throw UserError({path.string(), fmt::format("damaged compressed data near byte {}: {}", offset, why), "", "download or copy the file again"});
}

[[noreturn]] void refuse_truncated(const fs::path& path) {
  throw UserError({path.string(), "the file ends inside its compressed data", "", "the file is truncated: download or copy it again"});
}

void unpack_gzip(const MappedFile& file, TemporaryFile& out) {
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw Failure({file.path().string(), "cannot start to decompress", "", ""});
  const std::unique_ptr<z_stream, int (*)(z_stream*)> closes(&stream, inflateEnd);
  const std::string_view text = file.text();
  std::vector<char> block(kBlock);
  std::size_t consumed = 0;
  int status = Z_STREAM_END;  // an empty file has no member, and no end inside one
  while (consumed < text.size() || status != Z_STREAM_END) {
    if (status == Z_STREAM_END) inflateReset(&stream);  // the next member
    const std::size_t given = std::min(text.size() - consumed, kBlock);
    // zlib promises to read only, but its type does not.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data() + consumed));
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = inflate(&stream, Z_NO_FLUSH);
    consumed += given - stream.avail_in;
    out.write(std::span(block).first(block.size() - stream.avail_out));
    if (status == Z_BUF_ERROR && consumed == text.size()) refuse_truncated(file.path());
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      refuse(file.path(), consumed, stream.msg != nullptr ? stream.msg : "zlib error");
  }
}

void unpack_zstd(const MappedFile& file, TemporaryFile& out) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(), ZSTD_freeDStream);
  std::vector<char> block(kBlock);
  ZSTD_inBuffer in{file.text().data(), file.text().size(), 0};
  std::size_t expected = 0;  // 0 between frames
  while (in.pos < in.size || expected != 0) {
    ZSTD_outBuffer produced{block.data(), block.size(), 0};
    const std::size_t before = in.pos;
    expected = ZSTD_decompressStream(stream.get(), &produced, &in);
    if (ZSTD_isError(expected) != 0) refuse(file.path(), in.pos, ZSTD_getErrorName(expected));
    out.write(std::span(block).first(produced.pos));
    if (expected != 0 && in.pos == before && produced.pos == 0) refuse_truncated(file.path());
  }
}

}  // namespace

fs::path without_compression(const fs::path& path) {
  return path.extension() == ".gz" || path.extension() == ".zst" ? fs::path(path).replace_extension() : path;
}

MappedFile map_text(const fs::path& path) {
  MappedFile file(path);
  if (without_compression(path) == path) return file;
  TemporaryFile unpacked("compressed data is unpacked there");
  if (path.extension() == ".gz") {
    unpack_gzip(file, unpacked);
  } else {
    unpack_zstd(file, unpacked);
  }
  return MappedFile(unpacked.path());
}

}  // namespace tessera::formats
