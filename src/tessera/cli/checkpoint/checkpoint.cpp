#include <fmt/format.h>

#include "tessera/cli/checkpoint/commands.h"
#include "tessera/config/verifications.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/formats/tensor_spec.h"

namespace tessera::cli {

Command add_checkpoint(CLI::App& program) {
  CLI::App* parser = program.add_subcommand("checkpoint", "List, check, compare, convert and remove the checkpoints of runs");
  parser->require_subcommand(1);
  parser->footer("`tessera checkpoint COMMAND --help` shows the options of a command.\n\nexample:\n  tessera checkpoint list quickstart/checkpoints");
  return {parser, nullptr, nullptr, checkpoint_commands::add_all(*parser)};
}

namespace checkpoint_commands {

std::vector<Command> add_all(CLI::App& parent) {
  return {add_list(parent),    add_inspect(parent), add_verify(parent), add_consolidate(parent),
          add_reshard(parent), add_diff(parent),    add_prune(parent)};
}

std::uint64_t num_bytes(const checkpoint::Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const auto& [name, record] : manifest.files) bytes += record.size;
  return bytes;
}

std::uint64_t num_bytes(const checkpoint::TensorRecord& record, std::optional<DType> dtype) {
  return formats::num_elements(record.shape) * size_of(dtype.value_or(record.dtype));
}

std::uint64_t num_bytes(const checkpoint::TensorRecords& records, std::optional<DType> dtype) {
  std::uint64_t bytes = 0;
  for (const auto& [name, record] : records) bytes += num_bytes(record, dtype);
  return bytes;
}

std::string describe_layout(const Json& layout) {
  const std::int64_t ranks = layout.value("world_size", std::int64_t{1});
  std::string axes;
  for (const auto& [axis, size] : layout.items())
    if (axis != "world_size" && size.is_number() && size > 1) axes += fmt::format("{}{} {}", axes.empty() ? "" : ", ", axis, size.dump());
  return fmt::format("{}{}", plural(ranks, "rank"), axes.empty() ? "" : " (" + axes + ")");
}

void add_verify_option(CLI::App& parser, std::string& value) {
  parser.add_option("--verify", value, "What of the checkpoint is checked first: full (every byte), sizes, or off")->capture_default_str();
}

checkpoint::Verify verify_of(const std::string& value) {
  for (const auto& [word, verify] : config::verifications())
    if (word == value) return verify;
  throw UserError({"--verify", "unknown value \"" + value + "\"", "", "use full, sizes or off"});
}

checkpoint::Progress shown_on(ProgressBar& bar) {
  return [&bar](std::uint64_t bytes) { bar.advance(bytes); };
}

}  // namespace checkpoint_commands
}  // namespace tessera::cli
