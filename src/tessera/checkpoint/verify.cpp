#include "tessera/checkpoint/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "tessera/checkpoint/hash.h"
#include "tessera/formats/safetensors.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

bool is_shard(const std::string& file) { return file.ends_with(".safetensors"); }

// Which boxes of a damaged shard have other bytes than were saved; empty when the damage lies elsewhere.
std::vector<std::string> damaged_tensors(const fs::path& path, const std::string& name, const Manifest& manifest) try {
  const formats::SafetensorsFile file(path);
  std::vector<std::string> damaged;
  for (const TensorRecords* tensors : {&manifest.model, &manifest.optim})
    for (const auto& [tensor, record] : *tensors)
      for (const BoxRecord& box : record.boxes) {
        const formats::TensorInfo* info = box.file == name ? file.find(tensor) : nullptr;
        if (info != nullptr && hash_hex(file.bytes(*info)) != box.xxh3) damaged.push_back(tensor);
      }
  return damaged;
} catch (const UserError&) {
  return {};  // the header itself is damaged
}

std::string damage_text(const fs::path& path, const std::string& name, const Manifest& manifest) {
  const std::vector<std::string> tensors = damaged_tensors(path, name, manifest);
  if (tensors.empty()) return "the content is not what was saved";
  return fmt::format("the content is not what was saved: {} {} damaged", fmt::join(tensors, ", "), tensors.size() == 1 ? "is" : "are");
}

std::optional<std::string> problem_of_file(const fs::path& checkpoint, const std::string& name, const Manifest& manifest, Verify verify) {
  const fs::path path = checkpoint / name;
  const FileRecord& expected = manifest.files.at(name);
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error) return "the file is missing";
  if (size != expected.size)
    return fmt::format("{} bytes where {} were saved: {}", size, expected.size, size < expected.size ? "truncated" : "grown");
  if (verify == Verify::Full && hash_of_file(path) != expected.xxh3) return damage_text(path, name, manifest);
  return std::nullopt;
}

}  // namespace

bool is_consolidated(const std::string& file) { return file.starts_with("model/consolidated/"); }

// Each file goes to the rank that has the fewest bytes so far, the largest first: the same at every rank.
WantFile share_of_rank(const Manifest& manifest, const WantFile& wanted, int rank, int num_ranks) {
  std::vector<std::string> names;
  for (const auto& [name, record] : manifest.files)
    if (wanted(name)) names.push_back(name);
  std::ranges::stable_sort(names, std::greater(), [&](const std::string& name) { return manifest.files.at(name).size; });
  std::vector<std::uint64_t> bytes(static_cast<std::size_t>(num_ranks));
  std::set<std::string> share;
  for (const std::string& name : names) {
    const auto least = std::ranges::min_element(bytes);
    *least += manifest.files.at(name).size;
    if (least - bytes.begin() == rank) share.insert(name);
  }
  return [share = std::move(share)](const std::string& name) { return share.contains(name); };
}

std::vector<Problem> verify_files(const fs::path& checkpoint, const Manifest& manifest, Verify verify, const WantFile& wanted,
                                  const Progress& progress) {
  std::vector<Problem> problems;
  if (verify == Verify::Off) return problems;
  for (const auto& [name, record] : manifest.files) {
    if (wanted && !wanted(name)) continue;
    if (const auto what = problem_of_file(checkpoint, name, manifest, verify))
      problems.push_back({(checkpoint / name).string(), *what, "", "choose another checkpoint: this one is damaged"});
    if (progress) progress(record.size);
  }
  return problems;
}

void refuse_damage(const fs::path& checkpoint, const Manifest& manifest, Verify verify, const WantFile& wanted, const Progress& progress) {
  ProblemList problems;
  const auto add = [&](std::vector<Problem> found) {
    for (Problem& problem : found) problems.add(std::move(problem));
  };
  const auto shards = [&](const std::string& file) { return is_shard(file) && wanted(file); };
  const auto others = [&](const std::string& file) { return !is_shard(file) && wanted(file); };
  add(verify_files(checkpoint, manifest, verify, shards, verify == Verify::Full ? progress : Progress()));
  add(verify_files(checkpoint, manifest, Verify::Full, others, progress));
  problems.throw_if_any();
}

std::uint64_t bytes_to_hash(const Manifest& manifest, Verify verify, const WantFile& wanted) {
  std::uint64_t bytes = 0;
  for (const auto& [name, record] : manifest.files)
    if (wanted(name) && (verify == Verify::Full || !is_shard(name))) bytes += record.size;
  return bytes;
}

}  // namespace tessera::checkpoint
