#include "tessera/data/hub/checksum.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <memory>

#include "tessera/core/error.h"
#include "tessera/core/file.h"

namespace tessera::data {
namespace {

std::string digest(const EVP_MD* algorithm, const std::string& prefix, const MappedFile& file) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const bool done =
      context && EVP_DigestInit_ex(context.get(), algorithm, nullptr) == 1 && EVP_DigestUpdate(context.get(), prefix.data(), prefix.size()) == 1 &&
      EVP_DigestUpdate(context.get(), file.bytes().data(), file.bytes().size()) == 1 && EVP_DigestFinal_ex(context.get(), sum, &size) == 1;
  if (!done) throw Failure({file.path().string(), "cannot compute the checksum", "", ""});
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", sum[i]);
  return text;
}

}  // namespace

std::string sha256_of(const std::filesystem::path& file) { return digest(EVP_sha256(), "", MappedFile(file)); }

std::string git_sum_of(const std::filesystem::path& path) {
  const MappedFile file(path);
  return digest(EVP_sha1(), fmt::format("blob {}", file.bytes().size()) + std::string(1, '\0'), file);
}

}  // namespace tessera::data
