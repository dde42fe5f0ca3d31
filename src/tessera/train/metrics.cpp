#include "tessera/train/metrics.h"

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/text.h"

namespace tessera::train {
namespace {

/// The lines whose step is not after `keep_steps`; a half-written last line is dropped.
std::string kept_lines(const std::filesystem::path& path, std::int64_t keep_steps) {
  std::string kept;
  if (!std::filesystem::exists(path)) return kept;
  for (const std::string& line : split(read_text_file(path), '\n')) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.value("step", std::int64_t{0}) <= keep_steps) kept += line + '\n';
  }
  return kept;
}

}  // namespace

std::string log_line(const StepMetrics& m) {
  std::string line =
      fmt::format("step {} | epoch {} | loss {:.4f} | grad_norm {:.4f} | lr {:.2e} | mem {:.2f} GiB | tps {:.2f}({:.2f}/gpu) | num_label_tokens {}",
                  m.step, m.epoch, m.loss, m.gradient_norm, m.learning_rate, m.memory_gib, m.tokens_per_second,
                  m.tokens_per_second / static_cast<double>(m.world_size), m.num_label_tokens);
  if (m.mfu > 0.0) line += fmt::format(" | mfu {:.1f}%", 100.0 * m.mfu);
  return line;
}

Json to_json(const StepMetrics& m) {
  Json json{{"step", m.step},
            {"epoch", m.epoch},
            {"loss", m.loss},
            {"grad_norm", m.gradient_norm},
            {"lr", m.learning_rate},
            {"mem", m.memory_gib},
            {"tps", m.tokens_per_second},
            {"tps_per_gpu", m.tokens_per_second / static_cast<double>(m.world_size)},
            {"mfu", m.mfu},
            {"num_label_tokens", m.num_label_tokens}};
  for (const auto& [name, value] : m.routing) json[name] = value;
  return json;
}

JsonLines::JsonLines(const std::filesystem::path& path, std::int64_t keep_steps) : path_(path) {
  const std::string kept = kept_lines(path, keep_steps);
  const auto operations = posix_file_operations();
  replace_file(*operations, path, kept);
  stream_.open(path, std::ios::app);
}

void JsonLines::write(const Json& line) {
  stream_ << line.dump() << '\n' << std::flush;
  if (!stream_) throw Failure({path_.string(), "cannot write the log line", "", "free some space or choose another directory"});
}

}  // namespace tessera::train
