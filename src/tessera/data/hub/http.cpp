#include "tessera/data/hub/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "tessera/core/error.h"
#include "tessera/core/logging.h"
#include "tessera/core/version.h"

namespace tessera::data {
namespace {

constexpr long kOk = 200, kPartial = 206, kRangeNotSatisfiable = 416;
constexpr int kTries = 5;
constexpr long kConnectSeconds = 20;
constexpr long kStallSeconds = 30;  ///< without a kilobyte a second

using Curl = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

void allow_http_only(CURL* curl) {
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

Curl make_curl(const HttpRequest& request) {
  Curl curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) throw Failure({request.url, "cannot start a request", "", ""});
  curl_easy_setopt(curl.get(), CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_MAXREDIRS, 10L);
  allow_http_only(curl.get());
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1024L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_USERAGENT, fmt::format("tessera/{}", version()).c_str());
  if (!request.bearer_token.empty()) {
    curl_easy_setopt(curl.get(), CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl.get(), CURLOPT_XOAUTH2_BEARER, request.bearer_token.c_str());
  }
  return curl;
}

long status_of(const Curl& curl) {
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  return status;
}

std::size_t append_to_string(char* data, std::size_t, std::size_t size, void* target) {
  static_cast<std::string*>(target)->append(data, size);
  return size;
}

/// Where a download goes; opened with the answer's first bytes, when it is known whether the server goes on or begins again.
struct Target {
  const Curl& curl;
  const std::filesystem::path& file;
  const std::function<void(std::uint64_t)>& progress;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> open = {nullptr, std::fclose};
  std::uint64_t size = 0;
  bool failed = false;
};

std::size_t append_to_file(char* data, std::size_t, std::size_t size, void* pointer) {
  auto& target = *static_cast<Target*>(pointer);
  const long status = status_of(target.curl);
  if (status != kOk && status != kPartial) return size;  // the body of an error
  if (!target.open) {
    target.open.reset(std::fopen(target.file.c_str(), status == kPartial ? "ab" : "wb"));
    if (status == kOk) target.size = 0;
  }
  target.failed = !target.open || std::fwrite(data, 1, size, target.open.get()) != size;
  if (target.failed) return 0;
  target.progress(target.size += size);
  return size;
}

/// The server says that it may answer another time.
bool is_busy(long status) { return status == 429 || status >= 500; }

/// Before each attempt but the first.
void wait_before(int attempt) {
  if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(200 << attempt));
}

/// True when the file is complete; false when it is worth going on.
bool try_download(const HttpRequest& request, const std::filesystem::path& file, const std::function<void(std::uint64_t)>& progress,
                  std::string& why) {
  const Curl curl = make_curl(request);
  std::error_code error;
  const std::uintmax_t have = std::filesystem::file_size(file, error);
  Target target{.curl = curl, .file = file, .progress = progress, .size = error ? 0 : have};
  if (target.size > 0) curl_easy_setopt(curl.get(), CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(target.size));
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, append_to_file);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &target);
  const CURLcode result = curl_easy_perform(curl.get());
  const long status = status_of(curl);
  if (target.failed) throw Failure({file.string(), "cannot write the download", "", "free some space, or set HF_HOME to another folder"});
  if (status == kRangeNotSatisfiable) return true;  // nothing is left to send
  if (status >= 400 && !is_busy(status)) throw HttpFailure(status, fmt::format("{} answers {}", request.url, status));
  if (result == CURLE_OK && !is_busy(status)) return true;
  if (result == CURLE_RANGE_ERROR) std::filesystem::remove(file);  // a server that cannot go on: begin again
  why = is_busy(status) ? fmt::format("answers {}", status) : curl_easy_strerror(result);
  return false;
}

}  // namespace

std::string http_get(const HttpRequest& request) {
  for (int attempt = 0;; ++attempt) {
    wait_before(attempt);
    const Curl curl = make_curl(request);
    std::string body;
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, append_to_string);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &body);
    const CURLcode result = curl_easy_perform(curl.get());
    if (result != CURLE_OK) throw HttpFailure(0, fmt::format("{}: {}", request.url, curl_easy_strerror(result)));
    const long status = status_of(curl);
    if (status == kOk) return body;
    if (!is_busy(status) || attempt + 1 == kTries) throw HttpFailure(status, fmt::format("{} answers {}", request.url, status));
  }
}

void http_download(const HttpRequest& request, const std::filesystem::path& file, const std::function<void(std::uint64_t)>& progress) {
  std::string why;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (attempt > 0) log::note("the download stopped ({}); trying again, {} of {}: {}", why, attempt + 1, kTries, request.url);
    wait_before(attempt);
    if (try_download(request, file, progress, why)) return;
  }
  throw HttpFailure(0, fmt::format("{}: {}", request.url, why));
}

}  // namespace tessera::data
