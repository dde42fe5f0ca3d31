#include "tessera/data/hub/hub.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <vector>

#include "tessera/config/hub.h"
#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/json.h"
#include "tessera/core/logging.h"
#include "tessera/core/terminal.h"
#include "tessera/core/text.h"
#include "tessera/data/dataset/files.h"
#include "tessera/data/hub/checksum.h"
#include "tessera/data/hub/http.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

struct RemoteFile {
  std::string name;
  std::uint64_t size = 0;
  std::string sha256;   ///< of large files; "" for small ones
  std::string git_sum;  ///< SHA-1 as git makes it
  const std::string& blob() const { return sha256.empty() ? git_sum : sha256; }
};

struct Listing {
  std::string revision;
  std::vector<RemoteFile> files;
};

/// Held by one process at a time; the file stays.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX) != 0)
      throw Failure({path.string(), "cannot lock the file", "", "set HF_HOME to a folder that can be written"});
  }
  ~FileLock() { ::close(descriptor_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

UserError cannot_fetch(const std::string& name, const std::string& why, const std::string& fix = "") {
  const std::string by_hand = fmt::format("fetch it by hand: hf download --repo-type dataset {} --local-dir DIR, and name DIR in the recipe", name);
  return UserError({"", fmt::format("'{}' is a Hub name and not on disk, and {}", name, why),
                    "a data set is a local file, in the hub cache, or on the hub", fix.empty() ? by_hand : fix + "; or " + by_hand});
}

class Hub {
 public:
  Hub(const HubRequest& request, const Environment& environment)
      : request_(request),
        endpoint_(environment("HF_ENDPOINT").value_or("https://huggingface.co")),
        token_(token(environment)),
        repository_(config::repository_folder("datasets", request.name, environment)) {
    while (endpoint_.ends_with('/')) endpoint_.pop_back();
  }

  /// HttpFailure when the hub cannot be reached or refuses.
  fs::path fetch() {
    std::error_code error;
    fs::create_directories(repository_ / "blobs", error);
    if (error)
      throw UserError({repository_.string(), "cannot create the directory: " + error.message(), "", "set HF_HOME to a folder that can be written"});
    const FileLock lock(repository_ / ".lock");
    const Listing listing = list_files();
    const fs::path snapshot = repository_ / "snapshots" / listing.revision;
    std::vector<RemoteFile> missing;
    for (const RemoteFile& file : wanted_files(listing))
      if (!fs::exists(snapshot / file.name)) missing.push_back(file);
    download(missing, listing.revision, snapshot);
    remember(listing.revision);
    return snapshot;
  }

 private:
  static std::string token(const Environment& environment) {
    if (const auto given = environment("HF_TOKEN")) return *given;
    std::ifstream kept(environment("HF_TOKEN_PATH").value_or((config::huggingface_home(environment) / "token").string()));
    std::string word;
    kept >> word;
    return word;
  }

  Listing list_files() const {
    const std::string url = fmt::format("{}/api/datasets/{}/revision/main?blobs=true", endpoint_, request_.name);
    Listing listing;
    try {
      const Json answer = Json::parse(http_get({url, token_}));
      listing.revision = answer.at("sha").get<std::string>();
      for (const Json& sibling : answer.at("siblings")) {
        RemoteFile file{
            .name = sibling.at("rfilename").get<std::string>(), .size = sibling.value("size", std::uint64_t{0}), .sha256 = "", .git_sum = ""};
        if (sibling.contains("lfs") && sibling["lfs"].is_object()) file.sha256 = sibling["lfs"].value("sha256", "");
        file.git_sum = sibling.value("blobId", "");
        listing.files.push_back(std::move(file));
      }
    } catch (const Json::exception&) {
      throw UserError({url, "the hub's answer is not a list of files", "it is JSON with sha and siblings",
                       "check HF_ENDPOINT, and whether something between here and the hub answers in its place"});
    }
    check_names(listing, url);
    return listing;
  }

  /// Names come from the network and become paths.
  static void check_names(const Listing& listing, const std::string& url) {
    const auto harmless = [](const std::string& name) {
      return !name.empty() && name.front() != '/' && name.find('\0') == std::string::npos && ("/" + name + "/").find("/../") == std::string::npos;
    };
    bool fine = harmless(listing.revision) && listing.revision.find('/') == std::string::npos;
    for (const RemoteFile& file : listing.files)
      fine = fine && harmless(file.name) && file.blob().find_first_not_of("0123456789abcdef") == std::string::npos && !file.blob().empty();
    if (!fine) throw UserError({url, "the hub's answer names files outside the data set, or without checksums", "", "check HF_ENDPOINT"});
  }

  std::vector<RemoteFile> wanted_files(const Listing& listing) const {
    std::vector<std::string> names;
    for (const RemoteFile& file : listing.files) {
      const bool in_folder = request_.configuration.empty() || ("/" + file.name).find("/" + request_.configuration + "/") != std::string::npos;
      if (in_folder && is_data_file(file.name)) names.push_back(file.name);
    }
    names = files_of_split(names, request_.split);
    std::vector<RemoteFile> wanted;
    for (const RemoteFile& file : listing.files)
      if (std::ranges::find(names, file.name) != names.end()) wanted.push_back(file);
    if (wanted.empty()) {
      throw UserError(
          {"", fmt::format("'{}' has no data files{}", request_.name, request_.configuration.empty() ? "" : " in " + request_.configuration),
           "data files are Parquet, Arrow, JSONL, JSON, CSV, TSV and text, plain or compressed", "look at the data set's page for its files"});
    }
    return wanted;
  }

  void download(const std::vector<RemoteFile>& files, const std::string& revision, const fs::path& snapshot) const {
    std::uint64_t total = 0, done = 0;
    for (const RemoteFile& file : files) total += file.size;
    if (files.empty()) return;
    log::note("downloading {} file(s), {}, of {} from {}", files.size(), human_bytes(static_cast<double>(total)), request_.name, endpoint_);
    ProgressBar bar("downloading " + request_.name, total, ProgressBar::Unit::Bytes);
    for (const RemoteFile& file : files) {
      const fs::path blob = repository_ / "blobs" / file.blob();
      if (!fs::exists(blob)) {
        const std::string url = fmt::format("{}/datasets/{}/resolve/{}/{}", endpoint_, request_.name, revision, url_encoded(file.name));
        download_blob(url, file, blob, [&](std::uint64_t bytes) { bar.update(done + bytes); });
      }
      link(snapshot / file.name, blob);
      bar.update(done += file.size);
    }
  }

  void download_blob(const std::string& url, const RemoteFile& file, const fs::path& blob, const std::function<void(std::uint64_t)>& progress) const {
    const fs::path incomplete = blob.string() + ".incomplete";
    http_download({url, token_}, incomplete, progress);
    const std::string sum = file.sha256.empty() ? git_sum_of(incomplete) : sha256_of(incomplete);
    if (sum != file.blob()) {
      fs::remove(incomplete);
      throw Failure({url, fmt::format("the download has the checksum {}, the hub says {}", sum, file.blob()), "", "try again"});
    }
    fs::rename(incomplete, blob);
  }

  static std::string url_encoded(const std::string& path) {
    std::string encoded;
    for (const char c : path) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("/._-~").find(c) != std::string_view::npos;
      encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return encoded;
  }

  /// A relative link, as Hugging Face's libraries make it: the cache can be moved.
  static void link(const fs::path& path, const fs::path& blob) {
    fs::create_directories(path.parent_path());
    fs::remove(path);
    fs::create_symlink(fs::relative(blob, path.parent_path()), path);
  }

  void remember(const std::string& revision) const {
    fs::create_directories(repository_ / "refs");
    replace_file(*posix_file_operations(), repository_ / "refs" / "main", revision);
  }

  const HubRequest& request_;
  std::string endpoint_;
  std::string token_;
  fs::path repository_;
};

std::string refusal(const HttpFailure& failure) {
  if (failure.status() == 401 || failure.status() == 403)
    return "set HF_TOKEN to a token that may read it (a gated data set is asked for on its page)";
  if (failure.status() == 404) return "check the name";
  if (failure.status() == 429 || failure.status() >= 500) return "try again later";
  return "check the network connection and HF_ENDPOINT";
}

}  // namespace

fs::path hub_dataset(const HubRequest& request, const Environment& environment) {
  const auto on_disk = config::find_data_on_disk(request.name, environment);
  if (config::is_offline(environment)) {
    if (on_disk) return *on_disk;
    throw cannot_fetch(request.name, "HF_HUB_OFFLINE is set", "unset it");
  }
  try {
    return Hub(request, environment).fetch();
  } catch (const HttpFailure& failure) {
    if (!on_disk) throw cannot_fetch(request.name, failure.what(), refusal(failure));
    log::warning("{}: the hub could not be asked for newer files ({})", request.name, failure.what());
    return *on_disk;
  }
}

}  // namespace tessera::data
