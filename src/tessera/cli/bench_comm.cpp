#include "tessera/cli/bench_comm.h"

#include <fmt/format.h>

#include <memory>
#include <numeric>

#include "tessera/comm/benchmark.h"
#include "tessera/comm/mpi_backend.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/memory.h"
#include "tessera/core/text.h"

namespace tessera::cli {
namespace {

struct BenchCommOptions {
  comm::BenchmarkOptions measured;
  std::int64_t group_size = 0;
  bool json = false;
};

/// The ranks that measure together with this one: neighbours, `size` of them.
std::vector<std::int64_t> group_of(const comm::Backend& backend, std::int64_t size) {
  std::vector<std::int64_t> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), backend.rank() / size * size);
  return members;
}

std::string name_of(const comm::BenchmarkPoint& point) {
  return point.kind == comm::OperationKind::Send ? "send+receive" : std::string(to_string(point.kind));
}

OrderedJson to_json(const std::vector<comm::BenchmarkPoint>& points) {
  OrderedJson list = OrderedJson::array();
  for (const comm::BenchmarkPoint& point : points) {
    list.push_back({{"operation", name_of(point)},
                    {"group", point.group},
                    {"num_ranks", point.num_ranks},
                    {"bytes", point.bytes},
                    {"repetitions", point.repetitions},
                    {"median_seconds", point.median_seconds},
                    {"best_seconds", point.best_seconds},
                    {"bytes_per_second", point.bytes_per_second}});
  }
  return list;
}

void print_table(const std::vector<comm::BenchmarkPoint>& points) {
  fmt::print("{:<15}{:<12}{:>6}{:>12}{:>14}{:>14}{:>12}\n", "operation", "group", "ranks", "size", "median µs", "best µs", "GB/s");
  for (const comm::BenchmarkPoint& point : points) {
    fmt::print("{:<15}{:<12}{:>6}{:>12}{:>14.1f}{:>14.1f}{:>12.2f}\n", name_of(point), point.group, point.num_ranks,
               human_bytes(static_cast<double>(point.bytes)), 1e6 * point.median_seconds, 1e6 * point.best_seconds, point.bytes_per_second / 1e9);
  }
}

int bench_comm(const BenchCommOptions& options) {
  if (!comm::started_by_mpi()) {
    throw UserError({"", "bench comm: this process is alone", "it measures how ranks talk to each other",
                     "start several: tessera bench comm --nproc-per-node 2"});
  }
  keep_freed_memory();
  comm::MpiBackend backend;
  const std::int64_t size = options.group_size == 0 ? backend.world_size() : options.group_size;
  if (backend.world_size() % size != 0) {
    throw UserError({"", fmt::format("--group-size {} does not divide the {} ranks", size, backend.world_size()), "all groups measure at once",
                     "choose a --group-size that divides them, or leave it out"});
  }
  const auto group =
      backend.communicator(group_of(backend, size), size == backend.world_size() ? "world" : fmt::format("{} of {}", size, backend.world_size()));
  const std::vector<comm::BenchmarkPoint> points = benchmark(*group, options.measured);
  if (backend.rank() == 0) options.json ? print_json(to_json(points)) : print_table(points);
  return 0;
}

}  // namespace

Command add_bench_comm(CLI::App& bench) {
  const auto options = std::make_shared<BenchCommOptions>();
  CLI::App* parser = bench.add_subcommand("comm", "Operations between ranks: bandwidth and latency");
  const auto ranks = add_rank_arguments(*parser);
  parser->add_option("--sizes", options->measured.sizes, "Bytes of the tensors")->delimiter(',')->capture_default_str()->check(at_least(1));
  parser->add_option("--seconds", options->measured.seconds, "Time for each operation and size")->capture_default_str()->check(CLI::PositiveNumber);
  parser->add_option("--group-size", options->group_size, "Ranks of a group: neighbours (default: all ranks)")->check(at_least(1));
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer("example:\n  tessera bench comm --nproc-per-node 4 --sizes 8,1048576");
  return {parser, [options] { return bench_comm(*options); }, ranks};
}

}  // namespace tessera::cli
