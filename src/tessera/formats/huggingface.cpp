#include "tessera/formats/huggingface.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kDownloadAgain = "download the model again, with all its files";

std::optional<fs::path> existing_file(const fs::path& directory, std::string_view name) {
  fs::path path = directory / name;
  std::error_code error;
  if (fs::is_regular_file(path, error)) return path;
  return std::nullopt;
}

void check_directory(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory, error))
    throw UserError({directory.string(), "no such directory", "", "check the path; a model has to be downloaded first"});
  if (!fs::is_directory(directory, error)) throw UserError({directory.string(), "not a directory", "", "give the directory that holds config.json"});
}

Json read_object(const fs::path& path) {
  Json json = read_json_file(path);
  if (!json.is_object()) throw UserError({path.string(), "not a JSON object", "", std::string(kDownloadAgain)});
  return json;
}

/// A plain relative path below the directory: no root, no "..". (Hub caches keep the files themselves as links to elsewhere, so links are not
/// judged.)
bool stays_inside(const fs::path& file) {
  if (file.empty() || file.is_absolute()) return false;
  return std::none_of(file.begin(), file.end(), [](const fs::path& part) { return part == ".."; });
}

using WeightMap = std::map<std::string, std::string>;  // tensor -> file

WeightMap read_index(const fs::path& path) {
  const Json index = read_object(path);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object())
    throw UserError({path.string(), "\"weight_map\" is missing or is not an object", "", std::string(kDownloadAgain)});
  WeightMap result;
  ProblemList problems;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string())
      problems.add({path.string(), "the file of tensor \"" + tensor + "\" is not a string", "weight_map names the file of every tensor",
                    std::string(kDownloadAgain)});
    else if (!stays_inside(file.get<std::string>()))
      problems.add({path.string(), "tensor \"" + tensor + "\": file \"" + file.get<std::string>() + "\" lies outside the model's directory",
                    "shards are in the same folder as their index", std::string(kDownloadAgain)});
    else
      result.emplace(tensor, file.get<std::string>());
  }
  problems.throw_if_any();
  return result;
}

/// Opens every file, or reports all that are missing or broken.
std::vector<SafetensorsFile> open_files(const fs::path& directory, const std::vector<std::string>& names) {
  std::vector<SafetensorsFile> files;
  ProblemList problems;
  for (const std::string& name : names) {
    try {
      files.emplace_back(directory / name);
    } catch (const UserError& error) {
      problems.add(error);
    }
  }
  problems.throw_if_any();
  return files;
}

/// Index and shards must name the same tensors in the same places.
void check_against_index(const fs::path& index, const WeightMap& map, const std::vector<SafetensorsFile>& files,
                         const std::vector<std::string>& names) {
  ProblemList problems;
  std::set<std::pair<std::string_view, std::string_view>> held;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const TensorInfo& info : files[i].tensors()) {
      held.emplace(names[i], info.name);
      const auto found = map.find(info.name);
      if (found == map.end())
        problems.add(
            {files[i].path().string(), "tensor \"" + info.name + "\" is not in " + std::string(kIndexFile), "", std::string(kDownloadAgain)});
      else if (found->second != names[i])
        problems.add({files[i].path().string(), "tensor \"" + info.name + "\" should be in " + found->second + " according to the index", "",
                      std::string(kDownloadAgain)});
    }
  }
  for (const auto& [tensor, file] : map) {
    if (!held.contains({file, tensor}))
      problems.add({index.string(), "tensor \"" + tensor + "\" is not in " + file, "", std::string(kDownloadAgain)});
  }
  problems.throw_if_any();
}

[[noreturn]] void no_weights(const fs::path& directory) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"}) {
    if (existing_file(directory, name))
      throw UserError({(directory / name).string(), "this weight format is not supported", "weights are read from safetensors",
                       "convert the model to safetensors"});
  }
  throw UserError({directory.string(), fmt::format("holds neither {} nor {}", kSingleFile, kIndexFile), "", std::string(kDownloadAgain)});
}

std::string shard_name(std::size_t shard, std::size_t num_shards) {
  return num_shards == 1 ? std::string(kSingleFile) : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, num_shards);
}

}  // namespace

Json read_model_config(const fs::path& directory) {
  check_directory(directory);
  return read_object(directory / "config.json");
}

std::vector<fs::path> TokenizerFiles::existing() const {
  std::vector<fs::path> paths;
  for (const auto* file : {&tokenizer_json, &tokenizer_config_json, &special_tokens_map_json, &added_tokens_json, &chat_template_jinja, &vocab_json,
                           &merges_txt, &sentencepiece_model}) {
    if (*file) paths.push_back(**file);
  }
  return paths;
}

TokenizerFiles find_tokenizer_files(const fs::path& directory) {
  TokenizerFiles files;
  files.tokenizer_json = existing_file(directory, "tokenizer.json");
  files.tokenizer_config_json = existing_file(directory, "tokenizer_config.json");
  files.special_tokens_map_json = existing_file(directory, "special_tokens_map.json");
  files.added_tokens_json = existing_file(directory, "added_tokens.json");
  files.chat_template_jinja = existing_file(directory, "chat_template.jinja");
  files.vocab_json = existing_file(directory, "vocab.json");
  files.merges_txt = existing_file(directory, "merges.txt");
  files.sentencepiece_model = existing_file(directory, "tokenizer.model");
  if (!files.sentencepiece_model) files.sentencepiece_model = existing_file(directory, "spiece.model");
  return files;
}

bool has_weights(const fs::path& directory) { return existing_file(directory, kSingleFile) || existing_file(directory, kIndexFile); }

HuggingFaceDirectory::HuggingFaceDirectory(const fs::path& directory) : path_(directory) {
  check_directory(directory);
  if (!has_weights(directory)) no_weights(directory);
  // transformers, too, prefers the single file when both are there.
  if (existing_file(directory, kSingleFile)) {
    files_ = open_files(directory, {std::string(kSingleFile)});
  } else {
    const fs::path index = directory / kIndexFile;
    const WeightMap map = read_index(index);
    std::set<std::string> unique;
    for (const auto& [tensor, file] : map) unique.insert(file);
    const std::vector<std::string> names(unique.begin(), unique.end());
    files_ = open_files(directory, names);
    check_against_index(index, map, files_, names);
  }
  for (std::size_t file = 0; file < files_.size(); ++file) {
    for (const TensorInfo& info : files_[file].tensors()) tensors_.push_back({file, info});
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_by_name_.emplace(tensors_[i].info.name, i);
}

const HuggingFaceDirectory::Entry* HuggingFaceDirectory::find(std::string_view name) const {
  const auto found = index_by_name_.find(name);
  return found == index_by_name_.end() ? nullptr : &tensors_[found->second];
}

ShardPlan plan_shards(const std::vector<TensorSpec>& tensors, std::uint64_t max_shard_size) {
  ShardPlan plan;
  std::vector<TensorSpec> current;
  std::uint64_t current_size = 0;
  const auto close_current = [&] {
    plan.shards.push_back({"", std::exchange(current, {})});
    current_size = 0;
  };
  for (const TensorSpec& tensor : tensors) {
    const std::uint64_t size = num_bytes(tensor);
    plan.total_size += size;
    plan.total_parameters += num_elements(tensor.shape);
    if (size > max_shard_size) {  // alone, and before the shard that is being filled
      plan.shards.push_back({"", {tensor}});
      continue;
    }
    if (current_size + size > max_shard_size) close_current();
    current.push_back(tensor);
    current_size += size;
  }
  if (!current.empty() || plan.shards.empty()) close_current();
  for (std::size_t i = 0; i < plan.shards.size(); ++i) plan.shards[i].file_name = shard_name(i, plan.shards.size());
  return plan;
}

std::string shard_index_json(const ShardPlan& plan) {
  Json weight_map = Json::object();
  for (const ShardPlan::Shard& shard : plan.shards) {
    for (const TensorSpec& tensor : shard.tensors) weight_map[tensor.name] = shard.file_name;
  }
  const Json index{{"metadata", {{"total_parameters", plan.total_parameters}, {"total_size", plan.total_size}}},
                   {"weight_map", std::move(weight_map)}};
  return index.dump(2, ' ', true) + "\n";  // ASCII only, as Python writes it
}

void write_shards(FileOperations& operations, const fs::path& directory, const ShardPlan& plan, const TensorProducer& producer,
                  const StringMap& metadata) {
  for (const ShardPlan::Shard& shard : plan.shards) {
    SafetensorsWriter writer(operations, directory / shard.file_name, shard.tensors, metadata);
    for (const TensorInfo& info : writer.tensors()) producer(info.spec(), [&](std::span<const std::byte> bytes) { writer.write(info.name, bytes); });
    writer.finish();
  }
  if (plan.shards.size() > 1) {
    FileWriter writer(operations, directory / kIndexFile);
    writer.write(shard_index_json(plan));
    writer.finish();
  }
}

}  // namespace tessera::formats
