#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "tessera/checkpoint/directory.h"
#include "tessera/cli/checkpoint/commands.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::cli::checkpoint_commands {
namespace {

namespace fs = std::filesystem;

struct Row {
  checkpoint::CheckpointEntry entry;
  std::vector<std::string> links;
  std::optional<checkpoint::Manifest> manifest;
  std::string damage;  ///< why there is no manifest
};

std::vector<std::string> links_to(const fs::path& directory, const fs::path& path) {
  std::vector<std::string> links;
  for (const char* link : {checkpoint::kLatest, checkpoint::kLowestValidation})
    if (checkpoint::link_target(directory, link) == fs::canonical(path)) links.emplace_back(link);
  return links;
}

std::vector<Row> read(const fs::path& directory) {
  if (!fs::is_directory(directory)) throw UserError({directory.string(), "no such directory", "", "name the checkpoint_dir of a run"});
  std::vector<Row> rows;
  for (const checkpoint::CheckpointEntry& entry : checkpoint::list_checkpoints(directory)) {
    Row row{entry, links_to(directory, entry.path), std::nullopt, ""};
    try {
      row.manifest = checkpoint::read_manifest(entry.path);
    } catch (const UserError& error) {  // the others are still worth a line
      row.damage = error.problems().front().what;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string metric_text(const std::optional<double>& metric) { return metric ? fmt::format("{:.4f}", *metric) : "-"; }

void print_table(const fs::path& directory, const std::vector<Row>& rows) {
  if (rows.empty()) fmt::print("{} holds no complete checkpoint\n", directory.string());
  for (const Row& row : rows) {
    std::string links;
    for (const std::string& link : row.links) links += "  " + link;
    const std::string name = row.entry.path.filename().string();
    if (row.manifest)
      fmt::print("{:<24} {:>10}  validation {:<8}  {}{}\n", name, human_bytes(static_cast<double>(num_bytes(*row.manifest))),
                 metric_text(row.manifest->validation_metric), describe_layout(row.manifest->layout), links);
    else
      fmt::print("{:<24} damaged: {}{}\n", name, row.damage, links);
  }
}

OrderedJson to_json(const Row& row) {
  OrderedJson json{{"name", row.entry.path.filename().string()},
                   {"path", row.entry.path.string()},
                   {"epoch", row.entry.epoch},
                   {"step", row.entry.step},
                   {"links", row.links},
                   {"damage", row.damage.empty() ? OrderedJson() : OrderedJson(row.damage)}};
  if (!row.manifest) return json;
  const checkpoint::Manifest& manifest = *row.manifest;
  json["bytes"] = num_bytes(manifest);
  json["validation_metric"] = manifest.validation_metric ? OrderedJson(*manifest.validation_metric) : OrderedJson();
  json["model"] = manifest.signature.description;
  json["layout"] = manifest.layout;
  return json;
}

}  // namespace

Command add_list(CLI::App& parent) {
  struct ListOptions {
    fs::path directory;
    bool json = false;
  };
  const auto options = std::make_shared<ListOptions>();
  CLI::App* parser = parent.add_subcommand("list", "List the complete checkpoints of a run, oldest first");
  parser->add_option("DIR", options->directory, "The run's checkpoint_dir")->required();
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer("example:\n  tessera checkpoint list quickstart/checkpoints");
  return {parser, [options] {
            const std::vector<Row> rows = read(options->directory);
            if (!options->json) {
              print_table(options->directory, rows);
              return 0;
            }
            OrderedJson list = OrderedJson::array();
            for (const Row& row : rows) list.push_back(to_json(row));
            print_json(list);
            return 0;
          }};
}

}  // namespace tessera::cli::checkpoint_commands
