#include "tessera/checkpoint/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tessera/checkpoint/hash.h"
#include "tessera/checkpoint/model_numerics.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::checkpoint {
namespace {

std::string sizes_text(const model::ModelSpec& spec) {
  return fmt::format("{}: {} layers, hidden {}, feed-forward {}, {} heads ({} key/value) of {}, vocabulary {}{}", spec.model_type, spec.num_layers(),
                     spec.hidden_size, spec.intermediate_size, spec.num_attention_heads, spec.num_key_value_heads, spec.head_dim, spec.vocab_size,
                     spec.tie_word_embeddings ? ", tied head" : "");
}

// One line for each tensor, in an order that does not depend on how parameters are fused.
std::vector<std::string> tensor_lines(const model::ParameterTable& table) {
  std::vector<std::string> lines;
  for (const model::ParameterSpec& parameter : table.parameters)
    for (const model::Piece& piece : parameter.pieces) lines.push_back(fmt::format("{} {}\n", piece.tensor, piece.tensor_shape));
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines;
}

}  // namespace

ModelSignature model_signature(const model::ModelSpec& spec, const model::ParameterTable& table) {
  const std::string sizes = sizes_text(spec);
  Hasher hasher;
  const auto add = [&](const std::string& text) { hasher.update(std::as_bytes(std::span(text.data(), text.size()))); };
  add(sizes);
  for (const std::string& line : tensor_lines(table)) add(line);
  return {fmt::format("{}, {} parameters", sizes, human_count(static_cast<double>(table.num_elements()))), hasher.hex(), model_numerics(spec)};
}

std::vector<std::string> numeric_differences(const ModelSignature& saved, const ModelSignature& ours) {
  std::vector<std::string> differences;
  for (const auto& [field, value] : saved.numerics.items())
    if (ours.numerics.contains(field) && ours.numerics[field] != value)
      differences.push_back(fmt::format("{}: {} in the checkpoint, {} in the recipe", field, value.dump(), ours.numerics[field].dump()));
  return differences;
}

void refuse_other_model(const std::filesystem::path& checkpoint, const ModelSignature& saved, const ModelSignature& ours, bool weights_alone) {
  const std::string rule = "a run continues with the model it began with";
  if (saved.hash != ours.hash)
    throw UserError(
        Problem{checkpoint.string(),
                fmt::format("the checkpoint is of another model\n    checkpoint: {}\n    recipe:     {}", saved.description, ours.description), rule,
                "choose the checkpoint or the model that fits"});
  const std::vector<std::string> differences = numeric_differences(saved, ours);
  if (differences.empty() || weights_alone) return;
  throw UserError(Problem{checkpoint.string(), fmt::format("the model now computes otherwise\n    {}", fmt::join(differences, "\n    ")), rule,
                          "set it back, or begin a new run from the weights: restore_optimizer: false and another checkpoint_dir"});
}

Json to_json(const ModelSignature& signature) {
  return {{"description", signature.description}, {"hash", signature.hash}, {"numerics", signature.numerics}};
}

ModelSignature signature_from_json(const Json& json, const std::string& where) try {
  ModelSignature signature{json.at("description").get<std::string>(), json.at("hash").get<std::string>()};
  if (json.contains("numerics") && json["numerics"].is_object()) signature.numerics = json["numerics"];
  return signature;
} catch (const Json::exception& error) {
  throw UserError(Problem{where, std::string("no model signature: ") + error.what(), "",
                          "name another checkpoint: `tessera checkpoint list` shows the complete ones"});
}

}  // namespace tessera::checkpoint
