#include "tessera/config/hub.h"

#include <algorithm>
#include <cctype>
#include <fstream>

namespace tessera::config {

namespace {

namespace fs = std::filesystem;

fs::path hub_cache(const Environment& environment) {
  if (const auto cache = environment("HF_HUB_CACHE")) return *cache;
  if (const auto home = environment("HF_HOME")) return fs::path(*home) / "hub";
  if (const auto cache = environment("XDG_CACHE_HOME")) return fs::path(*cache) / "huggingface" / "hub";
  return fs::path(environment("HOME").value_or("")) / ".cache" / "huggingface" / "hub";
}

/// "org/name" lies in models--org--name.
fs::path repository_folder(const std::string& name, const Environment& environment) {
  std::string folder = "models--";
  for (const char c : name) folder += c == '/' ? std::string("--") : std::string(1, c);
  return hub_cache(environment) / folder;
}

}  // namespace

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
  const fs::path repository = repository_folder(name, environment);
  std::ifstream main_branch(repository / "refs" / "main");
  std::string revision;
  if (!(main_branch >> revision) || revision.find('/') != std::string::npos) return std::nullopt;
  const fs::path snapshot = repository / "snapshots" / revision;
  return fs::is_directory(snapshot, error) ? std::optional(snapshot) : std::nullopt;
}

}  // namespace tessera::config
