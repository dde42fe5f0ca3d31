#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

namespace tessera::data {

struct HttpRequest {
  std::string url;
  std::string bearer_token = {};  ///< sent to the first host only, not where it redirects to
};

/// What a server answered instead of 200 (0: it could not be reached).
class HttpFailure : public std::exception {
 public:
  HttpFailure(long status, std::string message) : status_(status), message_(std::move(message)) {}
  long status() const { return status_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  long status_;
  std::string message_;
};

/// The body of a GET, redirects followed. Asks again, a few times, when the server is busy (429, 5xx). HttpFailure when it cannot be reached or
/// answers anything but 200.
std::string http_get(const HttpRequest& request);

/// Downloads into `file`, going on where a file that exists ends (Range); a server that cannot do that sends everything again. Tries again, a few
/// times and with a note, when the connection breaks or stalls or the server is busy. `progress` gets the file's bytes so far.
void http_download(const HttpRequest& request, const std::filesystem::path& file, const std::function<void(std::uint64_t)>& progress);

}  // namespace tessera::data
