#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "tessera/checkpoint/compare.h"
#include "tessera/cli/checkpoint/commands.h"

namespace tessera::cli::checkpoint_commands {
namespace {

namespace fs = std::filesystem;

struct DiffOptions {
  fs::path a, b;
  bool json = false;
};

void print_text(const checkpoint::Differences& differences) {
  for (const std::string& line : differences.state) fmt::print("{}\n", line);
  for (const std::string& line : differences.structure) fmt::print("{}\n", line);
  for (const checkpoint::ValueDifference& values : differences.values)
    fmt::print("{}: {} of {} elements differ, by at most {:.3g} (largest value {:.3g})\n", values.name, values.num_different, values.num_elements,
               values.largest, values.largest_value);
  fmt::print("{} tensors compared, {} differ\n", differences.num_tensors, differences.values.size());
}

OrderedJson to_json(const checkpoint::Differences& differences) {
  OrderedJson values = OrderedJson::array();
  for (const checkpoint::ValueDifference& tensor : differences.values)
    values.push_back({{"name", tensor.name},
                      {"elements", tensor.num_elements},
                      {"different", tensor.num_different},
                      {"largest_difference", tensor.largest},
                      {"largest_value", tensor.largest_value}});
  return {{"same", differences.same()},
          {"tensors", differences.num_tensors},
          {"state", differences.state},
          {"structure", differences.structure},
          {"values", values}};
}

int diff(const DiffOptions& options) {
  checkpoint::Differences differences;
  {
    ProgressBar bar("comparing", checkpoint::bytes_to_compare(options.a, options.b), ProgressBar::Unit::Bytes);
    differences = checkpoint::compare(options.a, options.b, shown_on(bar));
  }
  options.json ? print_json(to_json(differences)) : print_text(differences);
  return differences.same() ? 0 : 1;
}

}  // namespace

Command add_diff(CLI::App& parent) {
  const auto options = std::make_shared<DiffOptions>();
  CLI::App* parser = parent.add_subcommand("diff", "Compare two checkpoints tensor by tensor, whatever their layouts");
  parser->add_option("A", options->a, "A checkpoint, or a Hugging Face directory (then only weights are compared)")->required();
  parser->add_option("B", options->b, "The other")->required();
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer(
      "Exits with 1 when anything differs.\n\nexample:\n  tessera checkpoint diff quickstart/SmolLM2-135M-Instruct quickstart/checkpoints/LATEST");
  return {parser, [options] { return diff(*options); }};
}

}  // namespace tessera::cli::checkpoint_commands
