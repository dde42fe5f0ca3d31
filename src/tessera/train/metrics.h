#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tessera/core/json.h"

namespace tessera::train {

/// What one optimizer step reports.
struct StepMetrics {
  std::int64_t step = 0;  ///< completed steps, the first is 1
  std::int64_t epoch = 0;
  double loss = 0.0;
  double gradient_norm = 0.0;
  double learning_rate = 0.0;
  double memory_gib = 0.0;         ///< peak resident memory of this process
  double tokens_per_second = 0.0;  ///< real tokens, padding left out, over all ranks
  double mfu = 0.0;                ///< share of the machine's measured matrix-product peak; 0 when it was not measured
  std::int64_t num_label_tokens = 0;
  std::int64_t world_size = 1;
  std::map<std::string, double> routing = {};  ///< routing_metrics.h; not in the log line
};

/// "step 5 | epoch 0 | loss 2.3121 | grad_norm 1.0312 | lr 1.00e-05 | mem 1.92 GiB | tps 512.33(512.33/gpu) | num_label_tokens 1024 | mfu 61.2%"
std::string log_line(const StepMetrics& metrics);
Json to_json(const StepMetrics& metrics);

/// A file that gets one JSON object a line, complete on disk after each call, so that a killed run keeps what it reported. Appends on resume: lines
/// of steps after `keep_steps` (from a run that got further than its last checkpoint) are dropped first.
class JsonLines {
 public:
  JsonLines(const std::filesystem::path& path, std::int64_t keep_steps);
  void write(const Json& line);

 private:
  std::filesystem::path path_;
  std::ofstream stream_;
};

}  // namespace tessera::train
