#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "tessera/cli/checkpoint/commands.h"
#include "tessera/core/text.h"

namespace tessera::cli::checkpoint_commands {
namespace {

namespace fs = std::filesystem;

void print_tensors(const checkpoint::TensorRecords& records) {
  for (const auto& [name, record] : records) {
    fmt::print("  {}  {} {}  {}\n", name, to_string(record.dtype), record.shape, human_bytes(static_cast<double>(num_bytes(record))));
    for (const checkpoint::BoxRecord& box : record.boxes) fmt::print("      {} at {}  {}\n", box.size, box.offset, box.file);
  }
}

void print_text(const checkpoint::Manifest& manifest, bool tensors) {
  fmt::print("model        {}\n", manifest.signature.description);
  fmt::print("epoch, step  {}, {} ({} optimizer steps)\n", manifest.epoch, manifest.step, manifest.optimizer_steps);
  if (manifest.validation_metric) fmt::print("validation   {:.4f}\n", *manifest.validation_metric);
  fmt::print("layout       {}\n", describe_layout(manifest.layout));
  std::vector<std::string> programs;
  for (const auto& [program, version] : manifest.versions.items()) programs.push_back(program + " " + version.get<std::string>());
  fmt::print("written by   {}\n", fmt::join(programs, ", "));
  fmt::print("files        {}, {}\n", manifest.files.size(), human_bytes(static_cast<double>(num_bytes(manifest))));
  fmt::print("weights      {} tensors, {}\n", manifest.model.size(), human_bytes(static_cast<double>(num_bytes(manifest.model))));
  fmt::print("optimizer    {} tensors, {}\n", manifest.optim.size(), human_bytes(static_cast<double>(num_bytes(manifest.optim))));
  if (!tensors) return;
  for (const auto& [title, records] : {std::pair("model/", &manifest.model), std::pair("optim/", &manifest.optim)}) {
    fmt::print("\n{}\n", title);
    print_tensors(*records);
  }
}

OrderedJson to_json(const checkpoint::TensorRecords& records) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, record] : records) {
    OrderedJson boxes = OrderedJson::array();
    for (const checkpoint::BoxRecord& box : record.boxes) boxes.push_back({{"file", box.file}, {"offset", box.offset}, {"size", box.size}});
    json[name] = {{"dtype", to_string(record.dtype)}, {"shape", record.shape}, {"boxes", boxes}};
  }
  return json;
}

OrderedJson to_json(const checkpoint::Manifest& manifest, bool tensors) {
  OrderedJson json{{"model", manifest.signature.description},
                   {"signature", manifest.signature.hash},
                   {"epoch", manifest.epoch},
                   {"step", manifest.step},
                   {"optimizer_steps", manifest.optimizer_steps},
                   {"validation_metric", manifest.validation_metric ? OrderedJson(*manifest.validation_metric) : OrderedJson()},
                   {"layout", OrderedJson(manifest.layout)},
                   {"versions", OrderedJson(manifest.versions)},
                   {"bytes", num_bytes(manifest)}};
  for (const auto& [name, record] : manifest.files) json["files"][name] = record.size;
  if (tensors) json["tensors"] = {{"model", to_json(manifest.model)}, {"optim", to_json(manifest.optim)}};
  return json;
}

}  // namespace

Command add_inspect(CLI::App& parent) {
  struct InspectOptions {
    fs::path checkpoint;
    bool tensors = false;
    bool json = false;
  };
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* parser = parent.add_subcommand("inspect", "Show what a checkpoint holds, from its manifest");
  parser->add_option("CHECKPOINT", options->checkpoint, "A checkpoint: epoch_E_step_S, or a link to it")->required();
  parser->add_flag("--tensors", options->tensors, "Also every tensor, and in which file each box of it lies");
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer("example:\n  tessera checkpoint inspect quickstart/checkpoints/LATEST --tensors");
  return {parser, [options] {
            const checkpoint::Manifest manifest = checkpoint::read_manifest(options->checkpoint);
            options->json ? print_json(to_json(manifest, options->tensors)) : print_text(manifest, options->tensors);
            return 0;
          }};
}

}  // namespace tessera::cli::checkpoint_commands
