#include "tessera/config/hub.h"

#include <algorithm>
#include <cctype>
#include <fstream>

namespace tessera::config {

namespace {

namespace fs = std::filesystem;

std::string joined(const std::string& name, std::string_view separator) {
  std::string folder;
  for (const char c : name) folder += c == '/' ? std::string(separator) : std::string(1, c);
  return folder;
}

/// The snapshot that the main branch points to.
std::optional<fs::path> snapshot_of(const fs::path& repository) {
  std::ifstream main_branch(repository / "refs" / "main");
  std::string revision;
  if (!(main_branch >> revision) || revision.find('/') != std::string::npos) return std::nullopt;
  const fs::path snapshot = repository / "snapshots" / revision;
  std::error_code error;
  return fs::is_directory(snapshot, error) ? std::optional(snapshot) : std::nullopt;
}

/// $HF_DATASETS_CACHE/org___name/CONFIGURATION/VERSION/HASH/NAME-SPLIT.arrow: the newest folder that holds any.
std::optional<fs::path> unpacked_by_datasets(const std::string& name, const Environment& environment) {
  const auto cache = environment("HF_DATASETS_CACHE");
  const fs::path root = (cache ? fs::path(*cache) : huggingface_home(environment) / "datasets") / joined(name, "___");
  std::error_code error;
  std::optional<fs::path> newest;
  fs::file_time_type newest_time;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".arrow") continue;
    const fs::file_time_type time = entry->last_write_time(error);
    if (!newest || time > newest_time) newest = entry->path().parent_path();
    newest_time = std::max(newest_time, time);
  }
  return newest;
}

}  // namespace

fs::path huggingface_home(const Environment& environment) {
  if (const auto home = environment("HF_HOME")) return *home;
  if (const auto cache = environment("XDG_CACHE_HOME")) return fs::path(*cache) / "huggingface";
  return fs::path(environment("HOME").value_or("")) / ".cache" / "huggingface";
}

fs::path hub_cache(const Environment& environment) {
  const auto cache = environment("HF_HUB_CACHE");
  return cache ? fs::path(*cache) : huggingface_home(environment) / "hub";
}

bool is_offline(const Environment& environment) {
  for (const char* const name : {"HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"}) {
    const std::string value = environment(name).value_or("");
    if (!value.empty() && value != "0" && value != "false" && value != "False" && value != "FALSE") return true;
  }
  return false;
}

fs::path repository_folder(std::string_view kind, const std::string& name, const Environment& environment) {
  return hub_cache(environment) / (std::string(kind) + "--" + joined(name, "--"));
}

bool looks_like_hub_name(const std::string& text) {
  static constexpr std::string_view file_endings[] = {".jsonl", ".json", ".parquet", ".txt",         ".bin",
                                                      ".gz",    ".zst",  ".gguf",    ".safetensors", ".model"};
  if (text.empty() || !std::isalnum(static_cast<unsigned char>(text.front())) || text.back() == '/') return false;
  if (std::ranges::count(text, '/') > 1) return false;
  if (std::ranges::any_of(file_endings, [&](std::string_view ending) { return text.ends_with(ending); })) return false;
  return std::ranges::all_of(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("/._-").find(c) != std::string_view::npos; });
}

std::optional<fs::path> find_on_disk(const std::string& name, const Environment& environment) {
  std::error_code error;
  if (fs::exists(name, error)) return name;
  if (!looks_like_hub_name(name)) return std::nullopt;
  return snapshot_of(repository_folder("models", name, environment));
}

std::optional<fs::path> find_data_on_disk(const std::string& name, const Environment& environment) {
  std::error_code error;
  if (fs::exists(name, error)) return name;
  if (!looks_like_hub_name(name)) return std::nullopt;
  if (auto snapshot = snapshot_of(repository_folder("datasets", name, environment))) return snapshot;
  return unpacked_by_datasets(name, environment);
}

}  // namespace tessera::config
