#include "tessera/checkpoint/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "tessera/checkpoint/directory.h"
#include "tessera/checkpoint/hash.h"
#include "tessera/core/error.h"
#include "tessera/formats/tensor_spec.h"

namespace fs = std::filesystem;

namespace tessera::checkpoint {
namespace {

constexpr std::string_view kFormat = "tessera-checkpoint";
constexpr std::int64_t kVersion = 2;
constexpr std::string_view kSealPrefix = ",\n\"xxh3\": \"";
constexpr std::string_view kSealSuffix = "\"\n}\n";
constexpr std::size_t kHashDigits = 16;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw UserError(Problem{where, what, "", "choose another checkpoint: this one is damaged"});
}

std::string seal(std::string_view body) {
  return fmt::format("{}{}{}", kSealPrefix, hash_hex(std::as_bytes(std::span(body.data(), body.size()))), kSealSuffix);
}

Json to_json(const BoxRecord& box) { return {{"file", box.file}, {"offset", box.offset}, {"size", box.size}, {"xxh3", box.xxh3}}; }

Json to_json(const TensorRecord& tensor) {
  Json boxes = Json::array();
  for (const BoxRecord& box : tensor.boxes) boxes.push_back(to_json(box));
  return {{"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"boxes", boxes}};
}

// "key": {…} with one entry per line: a manifest is also read by people.
template <class Map, class ToJson>
std::string section(const char* key, const Map& map, const ToJson& entry_json) {
  std::string text = fmt::format(",\n\"{}\": {{", key);
  const char* separator = "\n";
  for (const auto& [name, entry] : map) {
    text += fmt::format("{} {}: {}", separator, Json(name).dump(), Json(entry_json(entry)).dump());
    separator = ",\n";
  }
  return text + "\n}";
}

std::string sections(const std::map<std::string, FileRecord>& files, const TensorRecords& model, const TensorRecords& optim) {
  return section("files", files, [](const FileRecord& file) { return Json{{"size", file.size}, {"xxh3", file.xxh3}}; }) +
         section("model", model, [](const TensorRecord& tensor) { return to_json(tensor); }) +
         section("optim", optim, [](const TensorRecord& tensor) { return to_json(tensor); });
}

Json to_json(const std::optional<BestValidation>& best) {
  return best ? Json{{"metric", best->metric}, {"step", best->step}, {"checkpoint", best->checkpoint}} : Json(nullptr);
}

std::optional<BestValidation> best_validation_from_json(const Json& manifest) {
  if (!manifest.contains("best_validation") || manifest["best_validation"].is_null()) return std::nullopt;
  const Json& best = manifest["best_validation"];
  return BestValidation{best.at("metric").get<double>(), best.at("step").get<std::int64_t>(), best.at("checkpoint").get<std::string>()};
}

TensorRecord tensor_from_json(const Json& json, const std::string& where) {
  TensorRecord tensor;
  const std::string dtype = json.at("dtype").get<std::string>();
  if (!dtype_from_safetensors(dtype)) refuse(where, fmt::format("unknown dtype \"{}\"", dtype));
  tensor.dtype = *dtype_from_safetensors(dtype);
  tensor.shape = json.at("shape").get<std::vector<std::int64_t>>();
  for (const Json& box : json.at("boxes"))
    tensor.boxes.push_back({box.at("file").get<std::string>(), box.at("offset").get<std::vector<std::int64_t>>(),
                            box.at("size").get<std::vector<std::int64_t>>(), box.at("xxh3").get<std::string>()});
  return tensor;
}

bool inside(const BoxRecord& box, const std::vector<std::int64_t>& shape) {
  if (box.offset.size() != shape.size() || box.size.size() != shape.size()) return false;
  for (std::size_t dim = 0; dim < shape.size(); ++dim)
    if (box.offset[dim] < 0 || box.size[dim] < 0 || box.offset[dim] > shape[dim] || box.size[dim] > shape[dim] - box.offset[dim]) return false;
  return true;
}

bool overlap(const BoxRecord& a, const BoxRecord& b) {
  for (std::size_t dim = 0; dim < a.size.size(); ++dim)
    if (a.offset[dim] + a.size[dim] <= b.offset[dim] || b.offset[dim] + b.size[dim] <= a.offset[dim]) return false;
  return true;
}

TensorRecords tensors_from_json(const Json& json, const std::string& where) {
  TensorRecords tensors;
  for (const auto& [name, entry] : json.items()) tensors.emplace(name, tensor_from_json(entry, where));
  return tensors;
}

void check_tensors(const TensorRecords& tensors, const std::map<std::string, FileRecord>& files, const std::string& where) {
  for (const auto& [name, tensor] : tensors) {
    check_boxes(name, tensor, where);
    for (const BoxRecord& box : tensor.boxes)
      if (!files.contains(box.file)) refuse(where, fmt::format("{}: the file {} is not listed", name, box.file));
  }
}

std::map<std::string, FileRecord> files_from_json(const Json& json, const std::string& where) {
  std::map<std::string, FileRecord> files;
  for (const auto& [name, entry] : json.items()) {
    const fs::path path(name);
    if (path.empty() || path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
      refuse(where, fmt::format("the file \"{}\" is not inside the checkpoint", name));
    files[name] = {entry.at("size").get<std::uint64_t>(), entry.at("xxh3").get<std::string>()};
  }
  return files;
}

Json layout_from_json(const Json& layout, const std::string& where) {
  const auto ranks = layout.is_object() ? layout.find("world_size") : layout.end();
  if (!layout.is_object() || (ranks != layout.end() && !ranks->is_number_integer()))
    refuse(where, "the layout is not an object of sizes: " + layout.dump());
  return layout;
}

Json versions_from_json(const Json& versions, const std::string& where) {
  if (!versions.is_object() || !std::ranges::all_of(versions, [](const Json& version) { return version.is_string(); }))
    refuse(where, "the versions are not an object of texts: " + versions.dump());
  return versions;
}

Manifest manifest_from_json(const Json& json, const std::string& where) {
  if (json.at("format") != kFormat) refuse(where, "not the manifest of a checkpoint");
  if (const auto version = json.at("version").get<std::int64_t>(); version != kVersion)
    throw UserError(Problem{where, fmt::format("version {} of the checkpoint format is not supported", version),
                            fmt::format("this program reads version {}", kVersion), "use the program that wrote it, or a newer one"});
  Manifest manifest;
  manifest.epoch = json.at("epoch").get<std::int64_t>();
  manifest.step = json.at("step").get<std::int64_t>();
  manifest.signature = signature_from_json(json.at("model_signature"), where);
  manifest.optimizer_steps = json.at("optimizer_steps").get<std::int64_t>();
  if (const Json& metric = json.at("validation_metric"); !metric.is_null()) manifest.validation_metric = metric.get<double>();
  manifest.best_validation = best_validation_from_json(json);
  manifest.layout = layout_from_json(json.at("layout"), where);
  manifest.versions = versions_from_json(json.at("versions"), where);
  manifest.files = files_from_json(json.at("files"), where);
  manifest.model = tensors_from_json(json.at("model"), where);
  manifest.optim = tensors_from_json(json.at("optim"), where);
  check_tensors(manifest.model, manifest.files, where);
  check_tensors(manifest.optim, manifest.files, where);
  return manifest;
}

}  // namespace

// Boxes inside the tensor that do not overlap and are as many elements as it cover it exactly.
void check_boxes(const std::string& name, const TensorRecord& tensor, const std::string& where) {
  const std::optional<std::uint64_t> total = formats::checked_num_elements(tensor.shape);
  if (!total) refuse(where, fmt::format("{}: impossible shape {}", name, tensor.shape));
  std::uint64_t covered = 0;
  std::set<std::string> files;
  for (std::size_t i = 0; i < tensor.boxes.size(); ++i) {
    const BoxRecord& box = tensor.boxes[i];
    if (!inside(box, tensor.shape))
      refuse(where, fmt::format("{}: box at {} of size {} is not inside the shape {}", name, box.offset, box.size, tensor.shape));
    if (!files.insert(box.file).second) refuse(where, fmt::format("{}: two boxes in {}", name, box.file));
    covered += formats::num_elements(box.size);
    for (std::size_t j = 0; j < i; ++j)
      if (overlap(box, tensor.boxes[j])) refuse(where, fmt::format("{}: boxes at {} and {} overlap", name, tensor.boxes[j].offset, box.offset));
  }
  if (covered != *total) refuse(where, fmt::format("{}: the boxes hold {} of {} elements", name, covered, *total));
}

std::string sealed(std::string_view body) { return std::string(body) + seal(body); }

std::string to_text(const Manifest& manifest) {
  const Json metric = manifest.validation_metric ? Json(*manifest.validation_metric) : Json(nullptr);
  std::string text = fmt::format("{{\n\"format\": \"{}\",\n\"version\": {},\n\"epoch\": {},\n\"step\": {},\n\"optimizer_steps\": {}", kFormat,
                                 kVersion, manifest.epoch, manifest.step, manifest.optimizer_steps);
  text += fmt::format(",\n\"validation_metric\": {},\n\"best_validation\": {},\n\"model_signature\": {},\n\"layout\": {},\n\"versions\": {}",
                      metric.dump(), to_json(manifest.best_validation).dump(), to_json(manifest.signature).dump(), manifest.layout.dump(),
                      manifest.versions.dump());
  text += sections(manifest.files, manifest.model, manifest.optim);
  return sealed(text);
}

std::string checked_text(const Manifest& manifest) {
  std::string text = to_text(manifest);
  try {
    manifest_from_text(text, "the ranks' boxes");
  } catch (const UserError& error) {
    throw Failure({"", "the ranks did not write a whole model: " + error.problems().front().what, "", ""});
  }
  return text;
}

std::string to_text(const RankRecords& records) {
  return fmt::format("{{\"format\": \"{}\"{}}}", kFormat, sections(records.files, records.model, records.optim));
}

RankRecords rank_records_from_text(std::string_view text) {
  const Json json = parse_json(text, "a rank's records");
  return {files_from_json(json.at("files"), "files"), tensors_from_json(json.at("model"), "model"), tensors_from_json(json.at("optim"), "optim")};
}

void merge(TensorRecords& into, const TensorRecords& from) {
  for (const auto& [name, record] : from) {
    const auto [place, inserted] = into.emplace(name, record);
    if (!inserted) place->second.boxes.insert(place->second.boxes.end(), record.boxes.begin(), record.boxes.end());
  }
}

void merge(Manifest& into, const RankRecords& from) {
  into.files.insert(from.files.begin(), from.files.end());
  merge(into.model, from.model);
  merge(into.optim, from.optim);
}

Manifest manifest_from_text(std::string_view text, const std::string& where) {
  const std::size_t seal_size = kSealPrefix.size() + kHashDigits + kSealSuffix.size();
  if (text.size() < seal_size) refuse(where, "the manifest is incomplete");
  const std::string_view body = text.substr(0, text.size() - seal_size);
  if (text.substr(body.size()) != seal(body)) refuse(where, "the manifest is damaged or incomplete");
  try {
    return manifest_from_json(parse_json(text, where), where);
  } catch (const Json::exception& error) {
    refuse(where, std::string("not a manifest: ") + error.what());
  }
}

Manifest read_manifest(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifestName;
  std::error_code error;
  if (fs::status(checkpoint, error).type() == fs::file_type::not_found)
    throw UserError(Problem{checkpoint.string(), "no such checkpoint", "", "`tessera checkpoint list` shows those of a run"});
  if (fs::status(path, error).type() == fs::file_type::not_found)
    throw UserError(Problem{checkpoint.string(), "not a complete checkpoint: it has no manifest.json", "the manifest is written last",
                            "name another checkpoint: `tessera checkpoint list` shows the complete ones"});
  return manifest_from_text(read_text_file(path), path.string());
}

}  // namespace tessera::checkpoint
